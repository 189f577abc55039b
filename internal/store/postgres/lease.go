package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// LeaseTask gives one task to a worker.
func (s *Store) LeaseTask(ctx context.Context, r bloom.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	type answer struct {
		lease  bloom.Lease
		worker bloom.Worker
	}
	var proposed proposal
	if r.WorkerID == "" {
		proposed = s.propose(ctx, r.TaskID)
	}
	need := func(w *want) {
		w.tasks = append(w.tasks, r.TaskID)
		if r.WorkerID != "" {
			w.workers = append(w.workers, r.WorkerID)
			w.lockWorkers = append(w.lockWorkers, r.WorkerID)
			return
		}
		w.lockAll = true
		w.anyone = w.anyone || w.alone || proposed.everybody
		w.workers = append(w.workers, proposed.names...)
		w.holders = append(w.holders, r.TaskID)
	}
	a, err := together(ctx, s.lane, need, func(t *tx) (a answer, err error) {
		a.lease, a.worker, err = t.leaseTask(r)
		return a, err
	})
	return a.lease, a.worker, err
}

func (t *tx) leaseTask(r bloom.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	var none bloom.Lease
	tk, err := t.task(r.TaskID)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	// Asked first with nobody's name: a task that cannot be leased at all says
	// so, whoever is there to take it.
	if _, err := t.grant(tk, "", r.TTLSec); err != nil {
		return none, bloom.Worker{}, err
	}
	w, err := t.pick(tk, r.WorkerID)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	tr, err := t.grant(tk, w.ID, r.TTLSec)
	if err != nil {
		return none, bloom.Worker{}, err
	}
	w.ActiveLeases++
	t.given[w.ID]++
	t.holders[tk.ContextID] = append(t.holders[tk.ContextID], w.ID)
	told := w.Worker // the lane remembers the other one
	told.Capabilities.Labels, told.IPAddrs = slices.Clone(told.Capabilities.Labels), slices.Clone(told.IPAddrs)
	return tr.Lease, told, t.apply(tk, nil, tr, r.Actor)
}

// grant leases a locked task. Its gate tells whether it waits for an earlier one:
// whatever changes that changes the gate in the same transaction.
func (t *tx) grant(tk *task, workerID string, ttlSec int) (bloom.Transition, error) {
	return bloom.GrantLease(tk.TaskState, tk.ID, tk.ContextID, schema.NewID(t.now), workerID, cmp.Or(ttlSec, bloom.DefaultLeaseTTLSec),
		tk.gate == bloom.GateOrdered, t.now)
}

// pick is the worker that gets the task: the named one, or the rule's choice.
func (t *tx) pick(tk *task, named string) (*stored, error) {
	if named != "" {
		w, err := t.worker(named)
		if err == nil && !w.CanTake(tk.Labels) {
			err = bloom.ErrNoWorker
		}
		return w, err
	}
	workers := make([]bloom.Worker, 0, len(t.workers))
	for _, w := range t.workers {
		if !w.Removed {
			workers = append(workers, w.Worker)
		}
	}
	slices.SortFunc(workers, func(a, b bloom.Worker) int { return strings.Compare(a.ID, b.ID) })
	holders := t.holders[tk.ContextID]
	w, ok := bloom.PickWorker(workers, tk.Labels, func(id string) bool { return slices.Contains(holders, id) })
	switch {
	case ok:
		t.choices = append(t.choices, choice{worker: w.ID, context: tk.ContextID})
		return t.workers[w.ID], nil
	case !t.everybody:
		return nil, errAlone // who was proposed does not fit; somebody else may
	}
	return nil, bloom.ErrNoWorker
}

// named reads a task and the lease a caller names; without a name its active one,
// ErrLeaseNotFound when there is none. A lease of another task is as good as lost.
func (t *tx) named(taskID, leaseID string) (*task, *lease, error) {
	tk, err := t.task(taskID)
	if err != nil {
		return nil, nil, err
	}
	if leaseID == "" {
		if l, ok := t.active[taskID]; ok {
			return tk, l, nil
		}
		return tk, nil, bloom.ErrLeaseNotFound
	}
	if l, ok := t.leases[leaseID]; ok && l.TaskID == taskID {
		return tk, l, nil
	}
	return tk, nil, bloom.ErrLeaseLost
}

// wantLease asks for a lease by its id, or for the task's active one.
func (w *want) wantLease(taskID, leaseID string) {
	if leaseID == "" {
		w.active = append(w.active, taskID)
	} else {
		w.leases = append(w.leases, leaseID)
	}
}

// Heartbeat renews one lease.
func (s *Store) Heartbeat(ctx context.Context, taskID, leaseID string) (bloom.HeartbeatResult, error) {
	need := func(w *want) {
		w.tasks = append(w.tasks, taskID)
		w.wantLease(taskID, leaseID)
	}
	return together(ctx, s.lane, need, func(t *tx) (bloom.HeartbeatResult, error) {
		tk, l, err := t.named(taskID, leaseID)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		tr, err := bloom.Beat(tk.TaskState, l.Lease, t.now)
		if err != nil {
			return bloom.HeartbeatResult{}, err
		}
		if err := t.apply(tk, l, tr, l.WorkerID); err != nil {
			return bloom.HeartbeatResult{}, err
		}
		return bloom.HeartbeatResult{Lease: tr.Lease, ExpiresAt: tr.Lease.ExpiresAt, CancelRequested: tk.CancelRequested}, t.touch(l.WorkerID)
	})
}

// Release gives a lease back.
func (s *Store) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec, actor string) (bloom.Task, error) {
	need := func(w *want) {
		w.whole = append(w.whole, taskID)
		w.wantLease(taskID, r.LeaseID)
	}
	return together(ctx, s.lane, need, func(t *tx) (bloom.Task, error) {
		tk, l, err := t.named(taskID, r.LeaseID)
		if err != nil {
			return bloom.Task{}, err
		}
		tr, err := bloom.GiveBack(tk.TaskState, l.Lease, bloom.CleanText(r.Reason), r.NotBefore, t.now)
		if err != nil {
			return bloom.Task{}, err
		}
		err = t.apply(tk, l, tr, actor)
		return tk.Task, err
	})
}

// Lease is one lease of a task.
func (s *Store) Lease(ctx context.Context, taskID, leaseID string) (bloom.Lease, error) {
	if !isID(taskID) || !isID(leaseID) {
		return bloom.Lease{}, bloom.ErrLeaseLost
	}
	return read(ctx, s, func(c reader) (bloom.Lease, error) {
		return found(ctx, c, func(r pgx.Rows) (l bloom.Lease, err error) {
			err = r.Scan(leaseFields(&l)...)
			return l, err
		}, bloom.ErrLeaseLost, `SELECT `+leaseColumns+` FROM leases l WHERE l.id = $1 AND l.task_id = $2`, leaseID, taskID)
	})
}
