package sqlite

import (
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// Claim is one look of a worker at its work. One that finds nothing writes
// nothing but, every bloom.ContactEvery, that the worker was heard of.
func (s *Store) Claim(ctx context.Context, r bloom.ClaimRequest) (bloom.ClaimResult, error) {
	return write(ctx, s, func(t *tx) (bloom.ClaimResult, error) { return t.claim(r) })
}

func (t *tx) claim(r bloom.ClaimRequest) (res bloom.ClaimResult, err error) {
	res = bloom.ClaimResult{Leases: []bloom.LeasedTask{}, Renewed: []bloom.Renewal{}, Lost: []string{}, Cancel: []string{}}
	w, err := t.worker(r.WorkerID)
	if err != nil {
		return res, err
	}
	if err := t.contact(&w, r.InstanceID, r.MustName); err != nil {
		return res, err
	}
	if err := t.claimHeld(&res, &w, r); err != nil {
		return res, err
	}
	res.Drain = w.Draining
	if expired, err := t.anyExpired(res.Lost); err != nil || (expired && !r.Renew) {
		return res, err
	}
	if n := min(r.Max, w.Free()); n > 0 && w.CanTake(nil) {
		err = t.claimNew(&res, w.Worker, n, r.TTLSec)
	}
	return res, err
}

// holding is a lease of the worker and its task.
type holding struct {
	task  task
	lease bloom.Lease
}

// claimHeld compares what the worker says it holds with what it was given.
func (t *tx) claimHeld(res *bloom.ClaimResult, w *bloom.KnownWorker, r bloom.ClaimRequest) error {
	held, err := t.holdings(r.WorkerID)
	if err != nil {
		return err
	}
	w.ActiveLeases = len(held)
	for _, id := range r.Held {
		if !slices.ContainsFunc(held, func(h holding) bool { return h.lease.ID == id }) && !slices.Contains(res.Lost, id) {
			res.Lost = append(res.Lost, id)
		}
	}
	for i := range held {
		h := &held[i]
		if h.task.state.CancelRequested {
			res.Cancel = append(res.Cancel, h.lease.ID)
		}
		if !slices.Contains(r.Held, h.lease.ID) {
			full, err := t.task(h.task.id)
			if err != nil {
				return err
			}
			res.Leases = append(res.Leases, bloom.LeasedTask{Lease: h.lease, Task: full.whole()})
			continue
		}
		if !r.Renew {
			continue
		}
		tr, err := bloom.Beat(h.task.state, h.lease, t.now)
		if err != nil {
			return err
		}
		if err := t.apply(&h.task, h.lease, tr, w.ID); err != nil {
			return err
		}
		res.Renewed = append(res.Renewed, bloom.Renewal{LeaseID: tr.Lease.ID, ExpiresAt: tr.Lease.ExpiresAt})
	}
	return nil
}

// anyExpired reports whether one of the leases was reaped.
func (t *tx) anyExpired(ids []string) (bool, error) {
	for _, id := range ids {
		if _, expired, err := t.one(`SELECT 1 FROM leases WHERE id = ? AND status = 'expired'`, id); err != nil || expired {
			return expired, err
		}
	}
	return false, nil
}

func (t *tx) holdings(workerID string) ([]holding, error) {
	return collect(t.conn, func(r row) holding { return holding{task: scanState(r), lease: scanLease(r[stateWidth:])} },
		`SELECT `+stateColumns+`, `+leaseColumns+` FROM leases l JOIN llm_tasks t ON t.id = l.task_id
		WHERE l.worker_id = ? AND l.status = 'active' ORDER BY l.seq`, workerID)
}

func (t *tx) claimNew(res *bloom.ClaimResult, w bloom.Worker, n, ttlSec int) error {
	if err := t.openDue(); err != nil {
		return err
	}
	tasks, err := t.next(w, n)
	if err != nil {
		return err
	}
	for i := range tasks {
		tk := &tasks[i]
		tr, err := t.grant(tk, w.ID, ttlSec)
		if err != nil {
			return err
		}
		if err := t.apply(tk, bloom.Lease{}, tr, w.ID); err != nil {
			return err
		}
		res.Leases = append(res.Leases, bloom.LeasedTask{Lease: tr.Lease, Task: tk.whole()})
	}
	return nil
}
