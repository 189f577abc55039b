package store

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

var (
	// errNeed: the unit lacks something, which it has noted in need.
	errNeed = errors.New("store: more has to be read")
	// errBusy: somebody else has locked a row.
	errBusy = errors.New("store: a row is in use")
	// errDue: delayed tasks have to be opened first.
	errDue = errors.New("store: delayed tasks are due")
)

// Unit is what operations see of a transaction: the rows as those that ran before
// have left them, and where to leave changes. Nothing reaches the database before
// all have run, so that they may be run again on the same rows.
type Unit struct {
	Now  int64 // Unix milliseconds
	s    *Store
	rows *Rows
	need ReadSet
	op   *op  // the one that runs
	dirt bool // it has changed something

	c       Changes
	news    []bloom.Change
	tasks   map[string]*Task
	leases  map[string]*Lease
	active  map[string]string // lease ids by task, where that was changed
	workers map[string]*lifecycle.KnownWorker
	saved   Set[string] // workers in c
	access  access
	load    map[string]int // leases given less those ended, by worker
	waiting map[string]int // tasks left to a worker
	keys    map[Key]*Keyed
	done    map[OutcomeKey]*Outcome
	events  map[EventKey]bool
	moved   map[string]string           // URLs by artifact, where that was changed
	files   map[FileKey]*bloom.Artifact // new ones
	kept    map[int64]*Kept             // by task
	numbers int
	walked  []walk
	tx      Tx // that it was decided in
}

func newUnit(s *Store, rows *Rows) *Unit {
	return &Unit{
		Now: rows.Now, s: s, rows: rows, c: Changes{Now: rows.Now}, tasks: map[string]*Task{}, leases: map[string]*Lease{}, active: map[string]string{},
		workers: map[string]*lifecycle.KnownWorker{}, saved: Set[string]{}, load: map[string]int{}, waiting: map[string]int{}, keys: map[Key]*Keyed{},
		done: map[OutcomeKey]*Outcome{}, events: map[EventKey]bool{}, moved: map[string]string{}, files: map[FileKey]*bloom.Artifact{}, kept: map[int64]*Kept{},
	}
}

// task is a task under its lock.
func (u *Unit) task(id string) (*Task, error) {
	if t, ok := u.tasks[id]; ok {
		return t, nil
	}
	was, ok := u.rows.Tasks[id]
	switch {
	case !ok:
		return nil, u.lacks(id, func() { u.need.Tasks.Add(id) })
	case was == nil:
		return nil, bloom.ErrTaskNotFound
	}
	t := new(Task)
	*t = *was
	t.Was = was
	u.tasks[id] = t
	return t, nil
}

// lacks asks for a row, unless it is known that somebody else has it.
func (u *Unit) lacks(id string, ask func()) error {
	if _, busy := u.rows.Busy[id]; busy {
		return errBusy
	}
	ask()
	return errNeed
}

// view is a task with its text, as it is now; without a lock.
func (u *Unit) view(id string) (bloom.Task, error) {
	if t, ok := u.tasks[id]; ok {
		return u.whole(t)
	}
	t, ok := u.rows.Views[id]
	switch {
	case !ok:
		u.need.Views.Add(id)
		return bloom.Task{}, errNeed
	case t == nil:
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return t.Task, nil
}

// whole is a task with its text.
func (u *Unit) whole(t *Task) (bloom.Task, error) {
	is := t.Task
	if t.fresh {
		return is, nil
	}
	text, ok := u.rows.Texts[t.ID]
	if !ok {
		u.need.Texts.Add(t.ID)
		return is, errNeed
	}
	is.Prompt, is.ContextHints = text.Prompt, text.Hints
	return is, nil
}

// lease is a lease under its task's lock; ErrLeaseLost when there is none.
func (u *Unit) lease(id string) (*Lease, error) {
	if l, ok := u.leases[id]; ok {
		return l, nil
	}
	was, ok := u.rows.Leases[id]
	switch {
	case !ok:
		return nil, u.lacks(id, func() { u.need.Leases.Add(id) })
	case was == nil:
		return nil, bloom.ErrLeaseLost
	}
	l := &Lease{Lease: *was, Was: was}
	u.leases[id] = l
	return l, nil
}

// activeLease is the lease under which a task is held; ErrLeaseNotFound when there
// is none.
func (u *Unit) activeLease(taskID string) (*Lease, error) {
	id, ok := u.active[taskID]
	if !ok {
		if id, ok = u.rows.Active[taskID]; !ok {
			return nil, u.lacks(taskID, func() { u.need.Active.Add(taskID) })
		}
	}
	if id == "" {
		return nil, bloom.ErrLeaseNotFound
	}
	return u.lease(id)
}

// known is a worker under its lock, even when it was removed.
func (u *Unit) known(id string) (*lifecycle.KnownWorker, error) {
	w, ok := u.workers[id]
	if !ok {
		was, ok := u.rows.Workers[id]
		switch {
		case !ok:
			return nil, u.lacks(id, func() { u.need.Workers.Add(id) })
		case was == nil:
			return nil, bloom.ErrWorkerNotFound
		}
		w = new(lifecycle.KnownWorker)
		*w = *was
		u.workers[id] = w
	}
	if was := u.rows.Workers[id]; was != nil {
		w.ActiveLeases = was.ActiveLeases + u.load[id]
	}
	return w, nil
}

func (u *Unit) worker(id string) (*lifecycle.KnownWorker, error) {
	w, err := u.known(id)
	if err == nil && w.Removed {
		err = bloom.ErrWorkerNotFound
	}
	return w, err
}

// saveWorker leaves a worker to be written.
func (u *Unit) saveWorker(is lifecycle.KnownWorker) {
	u.dirt = true
	w := u.workers[is.ID]
	if w == nil {
		w = new(lifecycle.KnownWorker)
		u.workers[is.ID] = w
	}
	*w = is
	if _, ok := u.saved[is.ID]; !ok {
		u.saved.Add(is.ID)
		u.c.Workers = append(u.c.Workers, w)
	}
}

// touch marks a task to be written.
func (u *Unit) touch(t *Task) {
	u.dirt = true
	if !t.changed {
		t.changed = true
		if t.Was != nil {
			u.c.Tasks = append(u.c.Tasks, t)
		}
	}
}

// audit leaves an entry of the audit. data nil is null.
func (u *Unit) audit(action, entityType, entityID, actor, detail string, data json.RawMessage) {
	if data == nil {
		data = json.RawMessage("null")
	}
	u.dirt = true
	u.c.Audits = append(u.c.Audits, bloom.Audit{
		KeyID: u.op.caller.KeyID, Address: u.op.caller.Address,
		ID: schema.NewID(u.Now), Timestamp: u.Now, Action: action, EntityType: entityType, EntityID: entityID,
		Actor: bloom.ActorFor(u.op.caller.Role, actor), Detail: detail, Data: bloom.EventData(data),
	})
}

// auditWorker leaves the audit entry of a change and publishes it; one that changes nothing
// is left out.
func (u *Unit) auditWorker(c lifecycle.WorkerChange, actor string) {
	if c.Action == "" {
		return
	}
	u.news = append(u.news, bloom.Change{Kind: bloom.ChangeWorker, WorkerID: c.Worker.ID})
	u.audit(c.Action, bloom.EntityWorker, c.Worker.ID, actor, c.Detail, c.AuditData())
}

// event appends to a task's stream.
func (u *Unit) event(t *Task, e Event) {
	u.touch(t)
	t.LastEvent++
	e.Task, e.Seq = t.Seq, t.LastEvent
	u.c.Events = append(u.c.Events, e)
}

// tell adds a task's present state to what subscribers hear after the commit.
func (u *Unit) tell(t *Task, workerID string) {
	c := bloom.TaskChange(t.ID, t.TaskState, workerID)
	if c.TaskStatus == bloom.TaskQueued && len(t.Labels) > 0 {
		c.Labels = slices.Clone(t.Labels)
	}
	u.news = append(u.news, c)
}

// count keeps the number of tasks by status.
func (u *Unit) count(from, to bloom.TaskStatus) {
	if from != "" {
		u.c.Counts[slices.Index(bloom.TaskStatuses, from)]--
	}
	if to != "" {
		u.c.Counts[slices.Index(bloom.TaskStatuses, to)]++
	}
	u.chart(from, to)
}

// apply makes what a rule decided about a task: the task, its lease, the audit and
// the stream, the counts, and what follows for others of its context. l is nil when
// no lease, or a new one, is concerned.
func (u *Unit) apply(t *Task, l *Lease, tr lifecycle.Transition, actor string) error {
	if tr.Noop {
		return nil
	}
	before := t.TaskState
	t.TaskState = tr.Task
	if err := u.applyTask(t, before); err != nil {
		return err
	}
	u.applyLease(l, tr.Lease)
	if err := u.keepContext(t, before, l == nil && tr.Lease.ID != ""); err != nil {
		return err
	}
	u.record(t, tr, actor)
	if t.Policy.Ordered && tr.Task.Status.Terminal() {
		return u.openNext(t.ContextID)
	}
	return nil
}

func (u *Unit) applyTask(t *Task, before bloom.TaskState) error {
	if lifecycle.Same(before, t.TaskState) {
		return nil
	}
	u.touch(t)
	if before.Status != t.Status {
		u.count(before.Status, t.Status)
		if u.s.cfg.Transcripts && t.Status.Terminal() {
			u.stream(t).Due = true
		}
	}
	switch {
	case t.Status == bloom.TaskQueued:
		return u.enqueue(t, before.Status)
	case before.Status == bloom.TaskQueued:
		t.Gate, t.Preferred, t.Until = "", nil, 0
	}
	return nil
}

func (u *Unit) applyLease(l *Lease, is bloom.Lease) {
	if is.ID == "" {
		return
	}
	u.dirt = true
	if l == nil {
		l = &Lease{Lease: is}
		u.leases[is.ID], u.active[is.TaskID] = l, is.ID
		u.c.NewLeases = append(u.c.NewLeases, l)
		u.c.Counts[CountLeases]++
		u.c.Counts[CountActive]++
		u.load[is.WorkerID]++
		return
	}
	if l.Status == is.Status && l.ExpiresAt == is.ExpiresAt && l.LastHeartbeat == is.LastHeartbeat {
		return
	}
	if l.Status == bloom.LeaseActive && is.Status != bloom.LeaseActive {
		u.c.Counts[CountActive]--
		u.load[is.WorkerID]--
		u.active[is.TaskID] = ""
	}
	l.Lease = is
	if !l.changed && l.Was != nil {
		l.changed = true
		u.c.Leases = append(u.c.Leases, l)
	}
}

// record leaves the audit entry and the event of a transition, and notifies those who
// wait.
func (u *Unit) record(t *Task, tr lifecycle.Transition, actor string) {
	if tr.Action == "" {
		return
	}
	u.audit(tr.Action, bloom.EntityTask, t.ID, tr.Actor(actor), tr.Detail, bloom.MustJSON(lifecycle.Audited(t.TaskState)))
	u.event(t, Event{Type: tr.Event, At: u.Now, Epoch: t.Epoch, Data: tr.EventData()})
	u.tell(t, tr.Lease.WorkerID)
}

func isNotFound(err error) bool { return err != nil && bloom.KindOf(err) == bloom.KindNotFound }
