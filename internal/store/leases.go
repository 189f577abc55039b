package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// wantNamed asks for a task and the lease that a caller names, or its active one.
func wantNamed(r *ReadSet, taskID, leaseID string) {
	r.Tasks.Add(taskID)
	if leaseID == "" {
		r.Active.Add(taskID)
	} else {
		r.Leases.Add(leaseID)
	}
}

// named is a task and the lease that a caller names; without a name its active one,
// ErrLeaseNotFound when there is none. A lease of another task is as good as lost.
func (u *Unit) named(taskID, leaseID string) (*Task, *Lease, error) {
	t, err := u.task(taskID)
	if err != nil {
		return nil, nil, err
	}
	if leaseID == "" {
		l, err := u.activeLease(taskID)
		return t, l, err
	}
	l, err := u.lease(leaseID)
	if err == nil && l.TaskID != taskID {
		err = bloom.ErrLeaseLost
	}
	return t, l, err
}

// LeaseTask gives one task to a worker.
func (s *Store) LeaseTask(ctx context.Context, r bloom.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	type answer struct {
		lease  bloom.Lease
		worker bloom.Worker
	}
	want := func(w *ReadSet) {
		w.Tasks.Add(r.TaskID)
		if r.WorkerID != "" {
			w.Workers.Add(r.WorkerID)
			return
		}
		w.Online = true
		w.Knowing.Add(r.TaskID)
	}
	a, err := do(ctx, s, want, func(u *Unit) (a answer, err error) {
		a.lease, a.worker, err = u.leaseTask(r)
		return a, err
	})
	return a.lease, a.worker, err
}

func (u *Unit) leaseTask(r bloom.LeaseRequest) (none bloom.Lease, _ bloom.Worker, _ error) {
	t, err := u.task(r.TaskID)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	// Asked first with nobody's name: a task that cannot be leased at all says so,
	// whoever is there to take it.
	if _, err := u.grant(t, "", r.TTLSec); err != nil {
		return none, bloom.Worker{}, err
	}
	w, err := u.pick(t, r.WorkerID)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	tr, err := u.grant(t, w.ID, r.TTLSec)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	told := w.Worker
	told.ActiveLeases++
	return tr.Lease, told, u.apply(t, nil, tr, r.Actor)
}

// grant leases a task. Its gate reports whether it waits for an earlier one: whatever
// changes that changes the gate in the same transaction.
func (u *Unit) grant(t *Task, workerID string, ttlSec int) (lifecycle.Transition, error) {
	return lifecycle.GrantLease(t.TaskState, t.ID, t.ContextID, schema.NewID(u.Now), workerID, cmp.Or(ttlSec, bloom.DefaultLeaseTTLSec),
		t.Gate == bloom.GateOrdered, u.Now)
}

// pick is the worker that gets the task: the named one, or the rule's choice. The
// choice is made among workers that are not locked; who was chosen is then locked
// and looked at again.
func (u *Unit) pick(t *Task, named string) (*lifecycle.KnownWorker, error) {
	if named != "" {
		w, err := u.worker(named)
		if err == nil && !w.CanTake(t.Labels) {
			err = bloom.ErrNoWorker
		}
		return w, err
	}
	context, err := u.knowing(t)
	if err != nil {
		return nil, err
	}
	if u.rows.Online == nil {
		u.need.Online = true
		return nil, errNeed
	}
	candidates := make([]bloom.Worker, 0, len(u.rows.Online))
	for _, w := range u.rows.Online {
		if now, locked := u.rows.Workers[w.ID]; locked {
			if now == nil || now.Removed {
				continue
			}
			known, err := u.known(w.ID)
			if err != nil {
				return nil, err
			}
			candidates = append(candidates, known.Worker)
			continue
		}
		w.ActiveLeases += u.load[w.ID]
		candidates = append(candidates, w)
	}
	w, ok := lifecycle.PickWorker(candidates, t.Labels, context)
	if !ok {
		return nil, bloom.ErrNoWorker
	}
	return u.worker(w.ID)
}

// knowing are the workers that know the task's context.
func (u *Unit) knowing(t *Task) (lifecycle.ContextWorkers, error) {
	context, ok := u.rows.Knowing[t.ID]
	if !ok && t.Was != nil {
		u.need.Knowing.Add(t.ID)
		return context, errNeed
	}
	context.Holding = slices.Clone(context.Holding)
	for _, l := range u.c.NewLeases {
		if l.ContextID == nil || *l.ContextID != t.ContextID {
			continue
		}
		if context.Last = l.WorkerID; l.Status == bloom.LeaseActive {
			context.Holding = append(context.Holding, l.WorkerID)
		}
	}
	return context, nil
}

// Heartbeat renews one lease.
func (s *Store) Heartbeat(ctx context.Context, taskID, leaseID string) (bloom.HeartbeatResult, error) {
	return do(ctx, s, func(r *ReadSet) { wantNamed(r, taskID, leaseID) }, func(u *Unit) (bloom.HeartbeatResult, error) {
		t, l, err := u.named(taskID, leaseID)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		tr, err := lifecycle.Heartbeat(t.TaskState, l.Lease, u.Now)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		if err := u.apply(t, l, tr, l.WorkerID); err != nil {
			return bloom.HeartbeatResult{}, err
		}
		return bloom.HeartbeatResult{Lease: tr.Lease, ExpiresAt: tr.Lease.ExpiresAt, CancelRequested: t.CancelRequested}, u.heard(l.WorkerID)
	})
}

// Release gives a lease back.
func (s *Store) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec, actor string) (bloom.Task, error) {
	want := func(w *ReadSet) {
		wantNamed(w, taskID, r.LeaseID)
		w.Texts.Add(taskID)
	}
	return do(ctx, s, want, func(u *Unit) (bloom.Task, error) {
		t, l, err := u.named(taskID, r.LeaseID)
		if err != nil {
			return bloom.Task{}, err
		}
		tr, err := lifecycle.Release(t.TaskState, l.Lease, r.Reason, r.NotBefore, u.Now)
		if err != nil {
			return bloom.Task{}, err
		}
		if err := u.apply(t, l, tr, actor); err != nil {
			return bloom.Task{}, err
		}
		return u.whole(t)
	})
}

// reapActor is who the audit names for what no person or worker did.
const reapActor = "reaper"

// Reap expires at most limit overdue leases, each in an operation of its own, so
// that one that cannot be expired stops no other.
func (s *Store) Reap(ctx context.Context, limit int) (did bloom.Reaped, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return did, err
	}
	overdue, err := s.db.ActiveLeases(ctx, now, limit, s.bad.list(notExpired))
	if err != nil {
		return did, s.fail(err)
	}
	ended := make([]bloom.TaskStatus, len(overdue))
	s.eachLease(overdue, func(i int) error {
		l := overdue[i]
		var err error // of its own: they run at once
		ended[i], err = do(ctx, s, func(r *ReadSet) { wantNamed(r, l.TaskID, l.ID) }, func(u *Unit) (bloom.TaskStatus, error) {
			t, l, err := u.named(l.TaskID, l.ID)
			if err != nil {
				return "", err
			}
			tr := lifecycle.Expire(t.TaskState, l.Lease, u.Now)
			if tr.Noop {
				return "", nil
			}
			return tr.Task.Status, u.apply(t, l, tr, reapActor)
		})
		return err
	}, notExpired)
	for _, status := range ended {
		if status != "" {
			did.Count(status)
		}
	}
	return did, nil
}

// eachLease is each with the leases' places.
func (s *Store) eachLease(leases []bloom.Lease, run func(i int) error, op failing) {
	ids, places := make([]string, len(leases)), make(map[string]int, len(leases))
	for i, l := range leases {
		ids[i], places[l.ID] = l.ID, i
	}
	s.each(ids, func(id string) error { return run(places[id]) }, op)
}

// everLease is a time before which every lease expires.
const everLease = int64(1) << 62

// ExtendLeases gives every active lease its own TTL from now on. One that has longer
// was given under a clock that was wrong. A lease that was renewed meanwhile stays as
// it is.
func (s *Store) ExtendLeases(ctx context.Context) (int, error) {
	leases, err := s.db.ActiveLeases(ctx, everLease, 1<<30, nil)
	if err != nil {
		return 0, s.fail(err)
	}
	moved := make([]bool, len(leases))
	s.eachLease(leases, func(i int) error {
		found := leases[i]
		var err error // of its own: they run at once
		moved[i], err = do(ctx, s, func(r *ReadSet) { wantNamed(r, found.TaskID, found.ID) }, func(u *Unit) (bool, error) {
			_, l, err := u.named(found.TaskID, found.ID)
			if err != nil || l.Status != bloom.LeaseActive || l.ExpiresAt != found.ExpiresAt {
				return false, err
			}
			is := l.Lease
			is.ExpiresAt = u.Now + int64(is.TTLSeconds)*1000
			changes := is.ExpiresAt != l.ExpiresAt
			u.applyLease(l, is)
			return changes, nil
		})
		return err
	}, notMoved)
	n := 0
	for _, m := range moved {
		if m {
			n++
		}
	}
	return n, nil
}
