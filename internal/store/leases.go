package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// readNamed adds a task and the named lease, or its active one, to the read set.
func readNamed(r *ReadSet, taskID, leaseID string) {
	r.Tasks.Add(taskID)
	if leaseID == "" {
		r.Active.Add(taskID)
	} else {
		r.Leases.Add(leaseID)
	}
}

// named returns a task and the lease that a caller names. Without a name it is the
// active lease, or ErrLeaseNotFound. A lease of another task is ErrLeaseLost.
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

// LeaseTask leases one task to a worker: the named one, or the best that is
// available.
func (s *Store) LeaseTask(ctx context.Context, r bloom.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	type answer struct {
		lease  bloom.Lease
		worker bloom.Worker
	}
	reads := func(w *ReadSet) {
		w.Tasks.Add(r.TaskID)
		if r.WorkerID != "" {
			w.Workers.Add(r.WorkerID)
			return
		}
		w.ContextWorkers.Add(r.TaskID)
	}
	a, err := do(ctx, s, reads, func(u *Unit) (a answer, err error) {
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
	// First without a worker: if the task cannot be leased at all, that is the error,
	// whether or not a worker is available.
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
	assigned := w.Worker
	assigned.ActiveLeases++
	return tr.Lease, assigned, u.apply(t, nil, tr, r.Actor)
}

// grant leases a task. GateOrdered means that it waits for an earlier task: the
// transaction that ends that task also opens the gate.
func (u *Unit) grant(t *Task, workerID string, ttlSec int) (lifecycle.Transition, error) {
	return lifecycle.GrantLease(t.TaskState, t.ID, t.ContextID, schema.NewID(u.Now), workerID, cmp.Or(ttlSec, bloom.DefaultLeaseTTLSec),
		t.Gate == bloom.GateOrdered, u.Now)
}

// pick returns the worker for a task: the named one, or the rule's choice. The choice
// is made among workers that are not locked. The chosen one is then locked, and the
// choice is made again.
func (u *Unit) pick(t *Task, named string) (*lifecycle.KnownWorker, error) {
	if named != "" {
		w, err := u.worker(named)
		if err == nil && !w.CanTake(t.Labels) {
			err = bloom.ErrNoWorker
		}
		return w, err
	}
	context, err := u.contextWorkers(t)
	if err != nil {
		return nil, err
	}
	if u.rows.Online == nil {
		return u.suggested(t, context)
	}
	candidates := make([]*bloom.Worker, 0, len(u.rows.Online))
	for i := range u.rows.Online {
		w := u.rows.Online[i]
		if now, locked := u.rows.Workers[w.ID]; locked {
			if now == nil || now.Removed {
				continue
			}
			known, err := u.known(w.ID)
			if err != nil {
				return nil, err
			}
			w = known.Worker
		} else {
			w.ActiveLeases += u.load[w.ID]
		}
		candidates = append(candidates, &w)
	}
	w, ok := lifecycle.PickWorker(slices.Values(candidates), t.Labels, context)
	if !ok {
		return nil, bloom.ErrNoWorker
	}
	return u.ask(w.ID)
}

// suggested returns the worker for a task that the cache suggests, or asks for all that
// are online.
func (u *Unit) suggested(t *Task, context lifecycle.ContextWorkers) (*lifecycle.KnownWorker, error) {
	id := u.op.suggested
	if _, locked := u.rows.Workers[id]; !locked {
		var ok bool
		if id, ok = u.cached(t.Labels, context); ok && id == "" {
			return nil, bloom.ErrNoWorker
		}
		if u.op.suggested = id; ok {
			return u.ask(id)
		}
	} else if w, err := u.worker(id); err == nil && w.CanTake(t.Labels) {
		return w, nil
	}
	u.missing.Online = true
	return nil, errMissing
}

// ask returns a locked worker. If it must be locked first, further operations choose as if
// it had been given the task, so that they ask for theirs at once.
func (u *Unit) ask(id string) (*lifecycle.KnownWorker, error) {
	w, err := u.worker(id)
	if err == errMissing { //nolint:errorlint // it is never wrapped
		u.load[id]++
	}
	return w, err
}

// contextWorkers returns the workers that have worked on the task's context.
func (u *Unit) contextWorkers(t *Task) (lifecycle.ContextWorkers, error) {
	context, ok := u.rows.ContextWorkers[t.ID]
	if !ok && t.Was != nil {
		u.missing.ContextWorkers.Add(t.ID)
		return context, errMissing
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
func (s *Store) Heartbeat(ctx context.Context, taskID, leaseID string, used *bloom.Usage) (bloom.HeartbeatResult, error) {
	return do(ctx, s, func(r *ReadSet) { readNamed(r, taskID, leaseID) }, func(u *Unit) (bloom.HeartbeatResult, error) {
		t, l, err := u.named(taskID, leaseID)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		is, err := u.heartbeat(t, l, used)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		return bloom.HeartbeatResult{Lease: is, ExpiresAt: is.ExpiresAt, CancelRequested: t.CancelRequested}, u.noteContact(l.WorkerID)
	})
}

// heartbeat renews a lease and records what its attempt has used, unless that is nil.
func (u *Unit) heartbeat(t *Task, l *Lease, used *bloom.Usage) (bloom.Lease, error) {
	tr, err := lifecycle.Heartbeat(t.TaskState, l.Lease, u.Now)
	if err != nil {
		return bloom.Lease{}, err
	}
	if used != nil {
		tr.Lease.Usage = used.Bounded()
	}
	return tr.Lease, u.apply(t, l, tr, l.WorkerID)
}

// Release releases a lease.
func (s *Store) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec, actor string) (bloom.Task, error) {
	reads := func(w *ReadSet) {
		readNamed(w, taskID, r.LeaseID)
		w.Texts.Add(taskID)
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.Task, error) {
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
		return u.withText(t)
	})
}
