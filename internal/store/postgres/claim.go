package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// Claim is one look of a worker at its work. One that finds nothing writes
// nothing but, every bloom.ContactEvery, that the worker was heard of.
func (s *Store) Claim(ctx context.Context, r bloom.ClaimRequest) (bloom.ClaimResult, error) {
	need := func(w *want) {
		w.workers = append(w.workers, r.WorkerID)
		w.lockWorkers = append(w.lockWorkers, r.WorkerID)
		if !r.Renew {
			w.leases = append(w.leases, r.Held...) // an expired one ends the look
		}
		w.claims = append(w.claims, claimWant{worker: r.WorkerID, most: r.Max, held: r.Held, renew: r.Renew && len(r.Held) > 0})
	}
	return together(ctx, s.lane, need, func(t *tx) (bloom.ClaimResult, error) { return t.claim(r) })
}

func (t *tx) claim(r bloom.ClaimRequest) (res bloom.ClaimResult, err error) {
	res = bloom.ClaimResult{Leases: []bloom.LeasedTask{}, Renewed: []bloom.Renewal{}, Lost: []string{}, Cancel: []string{}}
	w, err := t.worker(r.WorkerID)
	if err != nil {
		return res, err
	}
	if w.Rivals(r.InstanceID, r.MustName, t.now) {
		return res, bloom.ErrWorkerConflict
	}
	tasks, err := t.choose(w, r)
	if err != nil {
		return res, err
	}
	t.heardOf(w, r.InstanceID)
	if err := t.claimHeld(&res, w, r); err != nil {
		return res, err
	}
	res.Drain = w.Draining
	for _, tk := range tasks {
		tr, err := t.grant(tk, w.ID, r.TTLSec)
		if err != nil {
			return res, err
		}
		if err := t.apply(tk, nil, tr, w.ID); err != nil {
			return res, err
		}
		w.ActiveLeases++
		t.claims[w.ID] = append(t.claims[w.ID], tr.Lease.ID)
		res.Leases = append(res.Leases, bloom.LeasedTask{Lease: tr.Lease, Task: tk.Task})
	}
	return res, nil
}

// choose names the best tasks for a worker among those read for the group, before
// anything is changed. When the others have left too little of what was read, the
// claim looks again alone.
func (t *tx) choose(w *stored, r bloom.ClaimRequest) ([]*task, error) {
	present := *w
	present.ActiveLeases = len(t.claims[w.ID]) + t.given[w.ID]
	if w.Silent() {
		present.Status = bloom.WorkerOnline
	}
	n := min(r.Max, present.Free())
	if n <= 0 || !present.CanTake(nil) {
		return nil, nil
	}
	expired := func(id string) bool { return t.leases[id] != nil && t.leases[id].Status == bloom.LeaseExpired }
	if !r.Renew && slices.ContainsFunc(r.Held, expired) {
		return nil, nil
	}
	if t.due {
		return nil, errDue
	}
	best := slices.Clone(t.queue)
	best = slices.DeleteFunc(best, func(tk *task) bool {
		return tk.Status != bloom.TaskQueued || tk.gate != bloom.GateOpen || tk.RunAt > t.now || !w.Capabilities.Carries(tk.Labels) ||
			tk.preferred != nil && *tk.preferred != w.ID && tk.until > t.now
	})
	slices.SortFunc(best, func(a, b *task) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.seq, b.seq))
	})
	if len(best) < n && t.cut && !t.alone {
		return nil, errAlone
	}
	return best[:min(n, len(best))], nil
}

// claimHeld compares what the worker says it holds with what it was given.
func (t *tx) claimHeld(res *bloom.ClaimResult, w *stored, r bloom.ClaimRequest) error {
	// Another operation of this transaction may just have ended one of them.
	held := slices.DeleteFunc(slices.Clone(t.claims[w.ID]), func(id string) bool { return t.leases[id].Status != bloom.LeaseActive })
	w.ActiveLeases = len(held) + t.given[w.ID]
	for _, id := range r.Held {
		if !slices.Contains(held, id) && !slices.Contains(res.Lost, id) {
			res.Lost = append(res.Lost, id)
		}
	}
	for _, id := range held {
		l := t.leases[id]
		tk := t.tasks[l.TaskID]
		if tk.CancelRequested {
			res.Cancel = append(res.Cancel, id)
		}
		if !slices.Contains(r.Held, id) {
			res.Leases = append(res.Leases, bloom.LeasedTask{Lease: l.Lease, Task: tk.Task})
			continue
		}
		if !r.Renew {
			continue
		}
		tr, err := bloom.Beat(tk.TaskState, l.Lease, t.now)
		if err != nil {
			return err
		}
		if err := t.apply(tk, l, tr, w.ID); err != nil {
			return err
		}
		res.Renewed = append(res.Renewed, bloom.Renewal{LeaseID: id, ExpiresAt: tr.Lease.ExpiresAt})
	}
	return nil
}
