package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// orUnknown returns a worker, even if it was removed, or the zero value if there is
// none.
func (u *Unit) orUnknown(name string) (lifecycle.KnownWorker, error) {
	w, err := u.known(name)
	switch {
	case isNotFound(err):
		return lifecycle.KnownWorker{}, nil
	case err != nil:
		return lifecycle.KnownWorker{}, err
	}
	return *w, nil
}

// RegisterWorker creates or updates a worker. It reports whether it was created.
func (s *Store) RegisterWorker(ctx context.Context, spec bloom.WorkerSpec, actor string) (bloom.Worker, bool, error) {
	type answer struct {
		worker  bloom.Worker
		created bool
	}
	name := spec.Name
	a, err := do(ctx, s, func(r *ReadSet) { r.Workers.Add(name) }, func(u *Unit) (a answer, err error) {
		was, err := u.orUnknown(name)
		if err != nil {
			return a, err
		}
		c, err := lifecycle.RegisterWorker(was, spec, u.Now)
		if err != nil {
			return a, err
		}
		u.saveWorker(c.Worker)
		u.auditWorker(c, actor)
		return answer{c.Worker.Worker, c.Created}, nil
	})
	return a.worker, a.created, err
}

// SyncWorkers applies the reports of the control plane, each in its own operation.
func (s *Store) SyncWorkers(ctx context.Context, reports []bloom.WorkerReport) (changed int, err error) {
	changes := make(chan bool, len(reports))
	names, byName := make([]string, 0, len(reports)), map[string][]bloom.WorkerReport{}
	for _, r := range reports {
		name := r.Name
		if _, seen := byName[name]; !seen {
			names = append(names, name)
		}
		byName[name] = append(byName[name], r)
	}
	errs := make(chan error, len(reports))
	s.forEach(names, func(name string) error {
		for _, r := range byName[name] {
			isNew, err := s.syncWorker(ctx, name, r)
			if err != nil {
				errs <- err
				return err
			}
			changes <- isNew
		}
		return nil
	}, notSynced)
	close(changes)
	for isNew := range changes {
		if isNew {
			changed++
		}
	}
	select {
	case err = <-errs:
	default:
	}
	return changed, err
}

// syncWorker applies one report. It reports whether that changed the worker, apart
// from the time of contact.
func (s *Store) syncWorker(ctx context.Context, name string, r bloom.WorkerReport) (bool, error) {
	return do(ctx, s, func(w *ReadSet) { w.Workers.Add(name) }, func(u *Unit) (bool, error) {
		was, err := u.orUnknown(name)
		if err != nil {
			return false, err
		}
		c := lifecycle.SyncWorker(was, r, u.Now)
		if c.Contact || c.Action != "" {
			u.saveWorker(c.Worker)
		}
		u.auditWorker(c, "membridge")
		return c.Action != "", nil
	})
}

// onWorker applies a rule to a worker that exists. If the rule returns false, nothing
// is written.
func (s *Store) onWorker(ctx context.Context, id, actor string, rule func(w lifecycle.KnownWorker, now int64) (c lifecycle.WorkerChange, ok bool)) (bloom.Worker, error) {
	return do(ctx, s, func(r *ReadSet) { r.Workers.Add(id) }, func(u *Unit) (bloom.Worker, error) {
		w, err := u.worker(id)
		if err != nil {
			return bloom.Worker{}, err
		}
		c, ok := rule(*w, u.Now)
		if !ok {
			return w.Worker, nil
		}
		u.saveWorker(c.Worker)
		u.auditWorker(c, actor)
		return c.Worker.Worker, nil
	})
}

// DrainWorker drains or undrains a worker at the runtime.
func (s *Store) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return s.drain(ctx, id, actor, func(w lifecycle.KnownWorker) lifecycle.WorkerChange { return lifecycle.DrainWorker(w, drain) })
}

// FollowDrain records whether the control plane drains a worker.
func (s *Store) FollowDrain(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return s.drain(ctx, id, actor, func(w lifecycle.KnownWorker) lifecycle.WorkerChange { return lifecycle.FollowDrain(w, drain) })
}

func (s *Store) drain(ctx context.Context, id, actor string, rule func(lifecycle.KnownWorker) lifecycle.WorkerChange) (bloom.Worker, error) {
	return s.onWorker(ctx, id, actor, func(w lifecycle.KnownWorker, _ int64) (lifecycle.WorkerChange, bool) {
		c := rule(w)
		return c, c.Action != ""
	})
}

// RemoveWorker removes a worker and releases its leases.
func (s *Store) RemoveWorker(ctx context.Context, id, actor string) error {
	reads := func(r *ReadSet) {
		r.Workers.Add(id)
		readHeld(r, id, true)
	}
	_, err := do(ctx, s, reads, func(u *Unit) (struct{}, error) { return struct{}{}, u.remove(id, actor) })
	return err
}

func (u *Unit) remove(id, actor string) error {
	w, err := u.worker(id)
	if err != nil {
		return err
	}
	held, err := u.held(id)
	if err != nil {
		return err
	}
	removal := lifecycle.RemoveWorker(*w)
	// First, so that no released task is reserved for this worker.
	u.saveWorker(removal.Worker)
	for _, h := range held {
		t, l, err := u.named(h.Lease.TaskID, h.Lease.ID)
		if err != nil {
			return err
		}
		tr, err := lifecycle.Release(t.TaskState, l.Lease, "the worker was removed", 0, u.Now)
		if err != nil {
			return err
		}
		if err := u.apply(t, l, tr, actor); err != nil {
			return err
		}
	}
	u.auditWorker(removal, actor)
	return nil
}
