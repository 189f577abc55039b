package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Claim renews the leases that a worker holds, returns those it lost, and leases tasks
// to it. A claim that changes nothing writes only the time of contact, at most every
// lifecycle.ContactInterval. It skips leases that another transaction has locked, and
// rows that cannot be changed.
func (s *Store) Claim(ctx context.Context, r contract.ClaimRequest) (bloom.ClaimResult, error) {
	res, err := s.claim(ctx, &claimAttempt{ClaimRequest: r})
	if causedByData(err) {
		return s.isolate(ctx, r)
	}
	return res, err
}

func (s *Store) claim(ctx context.Context, r *claimAttempt) (bloom.ClaimResult, error) {
	reads := func(rows *Rows) {
		workers.want(rows, r.WorkerID)
		if held.want(rows, r.WorkerID); r.Renew && len(r.Held) > 0 {
			held.wantUpTo(rows, r.WorkerID, lockHeld)
		}
		if r.Max > 0 {
			due.want(rows, one)
			for _, key := range s.labels.keys(r.WorkerID) {
				wantOpen(rows, r.WorkerID, key, r.Max)
			}
		}
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.ClaimResult, error) { return u.claim(r) })
}

// wantOpen has n more open tasks with a label key read.
func wantOpen(rows *Rows, worker, key string, n int) {
	claimers.want(rows, worker)
	open.wantMore(rows, key, min(n, bloom.MaxConcurrency))
}

func (u *Unit) claim(r *claimAttempt) (res bloom.ClaimResult, err error) {
	res = bloom.ClaimResult{Leases: []bloom.LeasedTask{}, Renewed: []bloom.Renewal{}, Lost: []string{}, Cancel: []string{}}
	w, err := u.worker(r.WorkerID)
	if err != nil {
		return res, err
	}
	if w.ConflictsWith(r.InstanceID, r.MustName, u.Now) {
		return res, bloom.ErrWorkerConflict
	}
	held, err := u.held(w.ID)
	if err != nil {
		return res, err
	}
	res.Lost = lost(r.Held, held)
	tasks, err := u.choose(w, len(held), res.Lost, r.ClaimRequest)
	if err != nil {
		return res, err
	}
	repeated, tasks, err := u.fitting(held, tasks, r.Held)
	if err != nil {
		return res, err
	}
	if r.firstTask = ""; len(tasks) > 0 {
		r.firstTask = tasks[0].ID
	}
	u.contact(w, r.InstanceID)
	if err := u.claimHeld(&res, held, repeated, r); err != nil {
		return res, err
	}
	res.Drain, res.Labels = w.Draining, w.Capabilities.Labels
	for _, t := range tasks {
		tr, err := u.grant(t, w.ID, r.TTLSec)
		if err != nil {
			return res, err
		}
		if err := u.apply(t, nil, tr, w.ID); err != nil {
			return res, err
		}
		if err := u.addLease(&res, tr.Lease, t); err != nil {
			return res, err
		}
	}
	return res, nil
}

// claimBytes is the most that the texts in an answer have, unless the first has more. The rest
// comes with the next claim.
const claimBytes = 8 << 20

// fitting returns how many of the leases that the worker does not name fit into the answer,
// and which of the chosen tasks. It asks in one read for the sizes of their texts, and in
// another for those that fit.
func (u *Unit) fitting(held []Holding, chosen []*Task, named []string) (repeated int, fit []*Task, err error) {
	var all []*Task
	for _, h := range held {
		if !slices.Contains(named, h.Lease.ID) {
			all = append(all, h.Task)
		}
	}
	repeated = len(all)
	all = append(all, chosen...)
	n, total := 0, 0
	for i, t := range all {
		size, missing := u.textBytes(t)
		err = cmp.Or(err, missing)
		if total += size; i == 0 || total <= claimBytes {
			n = i + 1
		}
	}
	if err != nil {
		return 0, nil, err
	}
	for _, t := range all[:n] {
		_, missing := u.withText(t)
		err = cmp.Or(err, missing)
	}
	repeated = min(repeated, n)
	return repeated, all[repeated:n], err
}

// addLease adds a lease and its task to the answer.
func (u *Unit) addLease(res *bloom.ClaimResult, l bloom.Lease, t *Task) error {
	task, err := u.withText(t)
	res.Leases = append(res.Leases, bloom.LeasedTask{Lease: l, Task: task})
	return err
}

// held returns the active leases of a worker. A lease that another transaction has
// locked is as it was before that transaction.
func (u *Unit) held(worker string) ([]Holding, error) {
	read, err := held.get(u, worker)
	if err != nil {
		return nil, err
	}
	now := make([]Holding, 0, len(read))
	for _, h := range read {
		if l, ok := leases.seen(u, h.Lease.ID); ok {
			h.Lease = *l
		}
		if t, ok := tasks.seen(u, h.Lease.TaskID); ok {
			h.Task = t
		}
		if h.Lease.Status == bloom.LeaseActive {
			now = append(now, h)
		}
	}
	for l := range leases.added(&u.c) {
		if l.WorkerID == worker && l.Status == bloom.LeaseActive {
			t, _ := tasks.seen(u, l.TaskID)
			now = append(now, Holding{*l, t})
		}
	}
	return now, nil
}

// lost returns the named leases that are not held.
func lost(named []string, held []Holding) []string {
	lost := []string{}
	for _, id := range named {
		if !slices.ContainsFunc(held, func(h Holding) bool { return h.Lease.ID == id }) && !slices.Contains(lost, id) {
			lost = append(lost, id)
		}
	}
	return lost
}

// claimHeld renews the leases that the worker names, and adds to the answer the first of
// those that it does not name: their delivery was lost.
func (u *Unit) claimHeld(res *bloom.ClaimResult, held []Holding, repeated int, r *claimAttempt) error {
	for _, h := range held {
		named := slices.Contains(r.Held, h.Lease.ID)
		if !named && repeated == 0 {
			continue // the next claim's
		}
		if h.Task.CancelRequested {
			res.Cancel = append(res.Cancel, h.Lease.ID)
		}
		if !named {
			repeated--
			if err := u.addLease(res, h.Lease, h.Task); err != nil {
				return err
			}
			continue
		}
		if !r.renews(h.Lease.ID) {
			continue
		}
		if err := u.renew(res, h, r.Usage); err != nil {
			return err
		}
	}
	return nil
}

// renew extends a lease. One that is locked by another transaction or quarantined is
// left unchanged: it is neither renewed nor lost.
func (u *Unit) renew(res *bloom.ClaimResult, h Holding, reported map[string]bloom.Usage) error {
	_, leased := leases.seen(u, h.Lease.ID)
	_, locked := leases.of(u.rows).Get(h.Lease.ID)
	if !leased && !locked || u.s.quarantined.has(notRenewed, h.Lease.ID) {
		return nil
	}
	t, l, err := u.named(h.Lease.TaskID, h.Lease.ID)
	if err != nil {
		return err
	}
	var used *bloom.Usage
	if reported, ok := reported[l.ID]; ok {
		used = &reported
	}
	is, err := u.heartbeat(t, l, used)
	if err != nil {
		return err
	}
	res.Renewed = append(res.Renewed, bloom.Renewal{LeaseID: l.ID, ExpiresAt: is.ExpiresAt})
	return nil
}
