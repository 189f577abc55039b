package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// enqueue decides behind which gate a newly queued task waits and which worker it
// prefers. before is its previous status, "" for a new task.
func (u *Unit) enqueue(t *Task, before bloom.TaskStatus) error {
	blocked := false
	if t.Policy.Ordered {
		var err error
		if blocked, err = u.blocked(t); err != nil {
			return err
		}
	}
	if err := u.open(t, lifecycle.OrderGate(t.TaskState, blocked, u.Now)); err != nil {
		return err
	}
	if t.Policy.Ordered && before.Terminal() {
		return u.closeLater(t)
	}
	return nil
}

// open sets the gate of a queued task. An open task is reserved for a moment for the
// worker that last held its context, if that has room. Tasks already reserved for the
// worker count against its room, so other workers skip a bounded number of tasks.
func (u *Unit) open(t *Task, gate bloom.Gate) error {
	u.touch(t)
	t.Gate, t.Preferred, t.Until = gate, nil, 0
	if gate != bloom.GateOpen {
		return nil
	}
	home, ok := u.rows.Homes[t.ContextID]
	if !ok {
		u.missing.Homes.Add(t.ContextID)
		return errMissing
	}
	if home == nil {
		return nil
	}
	w := home.Worker
	if now, ok := u.workers[w.ID]; ok {
		w = *now
	}
	w.ActiveLeases = home.Worker.ActiveLeases + u.load[w.ID]
	if w.Removed || !w.CanTake(t.Labels) || home.Waiting+u.waiting[w.ID] >= w.Free() {
		return nil
	}
	u.waiting[w.ID]++
	t.Preferred, t.Until = &w.ID, u.Now+bloom.StickyGrace.Milliseconds()
	return nil
}

// firstOrdered is how many pending tasks of a context the first read includes.
const firstOrdered = 16

// orderedTasks returns the pending ordered tasks of a context, the earliest first. The
// context is locked.
func (u *Unit) orderedTasks(contextID string) ([]Place, error) {
	read, ok := u.rows.Ordered[contextID]
	if !ok {
		return nil, u.require(contextID, func() { atLeast(&u.missing.Ordered, contextID, firstOrdered) })
	}
	waiting := make([]Place, 0, len(read.Tasks))
	for _, p := range read.Tasks {
		if t, ok := u.tasks[p.ID]; ok {
			if t.Status.Terminal() {
				continue
			}
			p.Open = t.Status == bloom.TaskQueued && t.Gate != bloom.GateOrdered
		}
		waiting = append(waiting, p)
	}
	if read.Cut && len(waiting) < 2 {
		atLeast(&u.missing.Ordered, contextID, 2*len(read.Tasks))
		return nil, errMissing
	}
	return waiting, nil
}

// blocked reports whether an earlier ordered task of the context has not ended.
func (u *Unit) blocked(t *Task) (bool, error) {
	waiting, err := u.orderedTasks(t.ContextID)
	if err != nil {
		return false, err
	}
	if len(waiting) > 0 && waiting[0].Seq < t.Seq {
		return true, nil
	}
	// Tasks created or requeued by this transaction were not read.
	for _, o := range u.tasks {
		if o.Policy.Ordered && o.ContextID == t.ContextID && o.Seq < t.Seq && !o.Status.Terminal() {
			return true, nil
		}
	}
	return false, nil
}

// openNext opens the gate of the next ordered task, in the transaction that ends its
// predecessor.
func (u *Unit) openNext(contextID string) error {
	waiting, err := u.orderedTasks(contextID)
	if err != nil {
		return err
	}
	next := Place{}
	if len(waiting) > 0 {
		next = waiting[0]
	}
	for _, o := range u.tasks {
		if o.Policy.Ordered && o.ContextID == contextID && !o.Status.Terminal() && (next.ID == "" || o.Seq < next.Seq) {
			next = Place{ID: o.ID, Seq: o.Seq}
		}
	}
	if next.ID == "" || u.op.skipNext {
		return nil
	}
	t, err := u.task(next.ID)
	if err != nil || t.Gate != bloom.GateOrdered {
		return err
	}
	u.op.openedNext = t.ID
	u.notifyTask(t, "")
	return u.open(t, lifecycle.OrderGate(t.TaskState, false, u.Now))
}

// closeLater closes the gates of later ordered tasks that were open because t, which
// is queued again, had ended.
func (u *Unit) closeLater(t *Task) error {
	waiting, err := u.orderedTasks(t.ContextID)
	if err != nil {
		return err
	}
	for _, p := range waiting {
		if p.Seq <= t.Seq || !p.Open {
			continue
		}
		later, err := u.task(p.ID)
		if err != nil {
			return err
		}
		if err := u.open(later, bloom.GateOrdered); err != nil {
			return err
		}
	}
	return nil
}

// openBatch is how many delayed tasks are opened at once.
const openBatch = 100

// openDue opens delayed tasks whose time has come, each in its own operation, so that
// one that cannot be opened does not block the others.
func (s *Store) openDue(ctx context.Context) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	now, err := s.Time(ctx)
	if err != nil {
		return err
	}
	due, err := s.db.Due(ctx, now, openBatch, s.quarantined.list(notOpened))
	if err != nil {
		return err
	}
	s.forEach(due, func(id string) error {
		_, err := do(ctx, s, func(r *ReadSet) { r.Tasks.Add(id) }, func(u *Unit) (struct{}, error) {
			t, err := u.task(id)
			if err != nil || t.Gate != bloom.GateDelayed || t.RunAt > u.Now {
				return struct{}{}, err
			}
			u.notifyTask(t, "")
			return struct{}{}, u.open(t, bloom.GateOpen)
		})
		return err
	}, notOpened)
	return nil
}

// orderedBatch is how many contexts openOrdered looks at.
const orderedBatch = 1000

// openOrdered opens ordered tasks whose gates stayed closed although no earlier task of
// their context is pending: the transaction that ended that one could not open them. Each
// call looks at the next contexts with pending ordered tasks.
func (s *Store) openOrdered(ctx context.Context) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	first, err := s.db.FirstOrdered(ctx, s.ordered, orderedBatch)
	if err != nil {
		return err
	}
	s.ordered = ""
	if len(first) == orderedBatch {
		s.ordered = first[len(first)-1].Context
	}
	var closed []string
	for _, f := range first {
		if f.Closed && !s.quarantined.has(notOrdered, f.ID) {
			closed = append(closed, f.ID)
		}
	}
	s.forEach(closed, func(id string) error {
		_, err := do(ctx, s, func(r *ReadSet) { r.Tasks.Add(id) }, func(u *Unit) (struct{}, error) { return struct{}{}, u.openFirst(id) })
		return err
	}, notOrdered)
	return nil
}

// openFirst opens a task's gate if the task is the first of its context.
func (u *Unit) openFirst(id string) error {
	t, err := u.task(id)
	if err != nil || t.Gate != bloom.GateOrdered {
		return err
	}
	if blocked, err := u.blocked(t); err != nil || blocked {
		return err
	}
	u.notifyTask(t, "")
	return u.open(t, lifecycle.OrderGate(t.TaskState, false, u.Now))
}

// forEach runs an operation for every id concurrently. An id whose operation fails
// because of a bad row is quarantined.
func (s *Store) forEach(ids []string, run func(id string) error, op failure) {
	errs := make([]error, len(ids))
	done := make(chan int, len(ids))
	for i, id := range ids {
		go func() {
			errs[i] = run(id)
			done <- i
		}()
	}
	for range ids {
		i := <-done
		switch err := errs[i]; {
		case err == nil, transient(err), isNotFound(err):
		default:
			s.quarantine(op, ids[i], err)
		}
	}
}
