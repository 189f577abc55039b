package sqlite

import (
	"cmp"
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// LeaseTask gives one task to a worker.
func (s *Store) LeaseTask(ctx context.Context, r bloom.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	type answer struct {
		lease  bloom.Lease
		worker bloom.Worker
	}
	a, err := write(ctx, s, func(t *tx) (a answer, err error) {
		a.lease, a.worker, err = t.leaseTask(r)
		return a, err
	})
	return a.lease, a.worker, err
}

func (t *tx) leaseTask(r bloom.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	var none bloom.Lease
	tk, err := t.taskState(r.TaskID)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	// Asked first with nobody's name: a task that cannot be leased at all says
	// so, whoever is there to take it.
	if _, err := t.grant(&tk, "", r.TTLSec); err != nil {
		return none, bloom.Worker{}, err
	}
	w, err := t.pick(&tk, r.WorkerID)
	if err != nil {
		return none, w, err
	}
	tr, err := t.grant(&tk, w.ID, r.TTLSec)
	if err != nil {
		return none, w, err
	}
	w.ActiveLeases++
	return tr.Lease, w, t.apply(&tk, none, tr, r.Actor)
}

func (t *tx) grant(tk *task, workerID string, ttlSec int) (bloom.Transition, error) {
	ordered := false
	if tk.ordered && tk.state.Status == bloom.TaskQueued {
		var err error
		if ordered, err = t.blocked(tk.contextID, tk.seq); err != nil {
			return bloom.Transition{}, err
		}
	}
	return bloom.GrantLease(tk.state, tk.id, tk.contextID, schema.NewID(t.now), workerID, cmp.Or(ttlSec, bloom.DefaultLeaseTTLSec), ordered, t.now)
}

// pick is the worker that gets the task: the named one, or the rule's choice.
func (t *tx) pick(tk *task, named string) (bloom.Worker, error) {
	if named != "" {
		w, err := t.worker(named)
		if err == nil && !w.CanTake(tk.labels) {
			err = bloom.ErrNoWorker
		}
		return w.Worker, err
	}
	online, err := t.online()
	if err != nil {
		return bloom.Worker{}, err
	}
	w, ok := bloom.PickWorker(online, tk.labels, func(id string) bool { return t.mem.holds(id, tk.contextID) })
	if !ok {
		return bloom.Worker{}, bloom.ErrNoWorker
	}
	return w, nil
}

// Heartbeat renews one lease.
func (s *Store) Heartbeat(ctx context.Context, taskID, leaseID string) (bloom.HeartbeatResult, error) {
	return write(ctx, s, func(t *tx) (bloom.HeartbeatResult, error) {
		tk, l, err := t.named(taskID, leaseID, (*tx).taskState)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		tr, err := bloom.Beat(tk.state, l, t.now)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		if err := t.apply(&tk, l, tr, l.WorkerID); err != nil {
			return bloom.HeartbeatResult{}, err
		}
		return bloom.HeartbeatResult{Lease: tr.Lease, ExpiresAt: tr.Lease.ExpiresAt, CancelRequested: tk.state.CancelRequested},
			t.touch(l.WorkerID)
	})
}

// named reads a task and the lease a caller names; without a name its active
// one, ErrLeaseNotFound when there is none.
func (t *tx) named(taskID, leaseID string, read func(*tx, string) (task, error)) (task, bloom.Lease, error) {
	tk, err := read(t, taskID)
	if err != nil {
		return tk, bloom.Lease{}, err
	}
	if leaseID == "" {
		l, err := t.activeLease(taskID)
		return tk, l, err
	}
	l, err := t.lease(leaseID, taskID)
	return tk, l, err
}

// Release gives a lease back.
func (s *Store) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec, actor string) (bloom.Task, error) {
	return write(ctx, s, func(t *tx) (bloom.Task, error) {
		tk, l, err := t.named(taskID, r.LeaseID, (*tx).task)
		if err != nil {
			return bloom.Task{}, err
		}
		tr, err := bloom.GiveBack(tk.state, l, bloom.CleanText(r.Reason), r.NotBefore, t.now)
		if err != nil {
			return bloom.Task{}, err
		}
		err = t.apply(&tk, l, tr, actor)
		return tk.whole(), err
	})
}

// Lease is one lease of a task.
func (s *Store) Lease(ctx context.Context, taskID, leaseID string) (bloom.Lease, error) {
	return read(ctx, s, func(c *conn) (bloom.Lease, error) { return c.lease(leaseID, taskID) })
}
