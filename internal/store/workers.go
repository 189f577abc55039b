package store

import (
	"context"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// contact notes that a worker's living process was heard of, which the caller has
// found not to rival another, and makes it online again.
func (u *Unit) contact(w *lifecycle.KnownWorker, instanceID string) {
	heard := w.Contact(instanceID, u.Now)
	if heard.Action == "" && !heard.Contact {
		return
	}
	u.saveWorker(heard.Worker)
	u.auditWorker(heard, w.ID)
}

// heard notes a contact that came with a lease, at most every bloom.ContactEvery. A
// worker that others have locked is being noted there; one that was removed may
// still report a late lease.
func (u *Unit) heard(workerID string) error {
	if _, loaded := u.rows.Workers[workerID]; !loaded && u.s.contacts.recent(workerID, u.Now) {
		return nil
	}
	w, err := u.worker(workerID)
	if isNotFound(err) || err != nil && err == errBusy { //nolint:errorlint // it is never wrapped
		return nil
	}
	if err != nil {
		return err
	}
	u.contact(w, "")
	return nil
}

// contacts remembers when workers were last noted as heard of, so that a heartbeat
// need not read its worker.
type contacts struct {
	mu   sync.Mutex
	seen map[string]int64 // Unix milliseconds
}

func (c *contacts) recent(id string, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.seen[id]
	return ok && at <= now && now-at < lifecycle.ContactInterval.Milliseconds()
}

// note takes in a worker as it was committed.
func (c *contacts) note(w *lifecycle.KnownWorker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.Removed || w.Silent() {
		delete(c.seen, w.ID)
		return
	}
	if c.seen == nil {
		c.seen = make(map[string]int64)
	}
	c.seen[w.ID] = w.InstanceSeen
}

// orUnknown is a worker, even when it was removed; the zero one when there is none.
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

// RegisterWorker makes a worker known or updates it.
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

// SyncWorkers takes in what the control plane reports, each report in an operation
// of its own.
func (s *Store) SyncWorkers(ctx context.Context, reports []bloom.WorkerReport) (changed int, err error) {
	news := make(chan bool, len(reports))
	names, byName := make([]string, 0, len(reports)), map[string][]bloom.WorkerReport{}
	for _, r := range reports {
		name := r.Name
		if _, again := byName[name]; !again {
			names = append(names, name)
		}
		byName[name] = append(byName[name], r)
	}
	errs := make(chan error, len(reports))
	s.each(names, func(name string) error {
		for _, r := range byName[name] {
			told, err := s.syncWorker(ctx, name, r)
			if err != nil {
				errs <- err
				return err
			}
			news <- told
		}
		return nil
	}, notSynced)
	close(news)
	for told := range news {
		if told {
			changed++
		}
	}
	select {
	case err = <-errs:
	default:
	}
	return changed, err
}

// syncWorker takes one report in and reports whether it was news.
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

// onWorker runs a rule on a worker that is there. Without ok nothing is written.
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

// DrainWorker drains a worker at the runtime, or undrains it there.
func (s *Store) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return s.drain(ctx, id, actor, func(w lifecycle.KnownWorker) lifecycle.WorkerChange { return lifecycle.DrainWorker(w, drain) })
}

// FollowDrain notes whether the control plane drains a worker.
func (s *Store) FollowDrain(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return s.drain(ctx, id, actor, func(w lifecycle.KnownWorker) lifecycle.WorkerChange { return lifecycle.FollowDrain(w, drain) })
}

func (s *Store) drain(ctx context.Context, id, actor string, rule func(lifecycle.KnownWorker) lifecycle.WorkerChange) (bloom.Worker, error) {
	return s.onWorker(ctx, id, actor, func(w lifecycle.KnownWorker, _ int64) (lifecycle.WorkerChange, bool) {
		c := rule(w)
		return c, c.Action != ""
	})
}

// MarkSilent sets workers offline that nobody has heard of for longer, each in an
// operation of its own.
func (s *Store) MarkSilent(ctx context.Context, longer time.Duration) (int, error) {
	all, err := s.db.Workers(ctx)
	if err != nil {
		return 0, s.fail(err)
	}
	now, err := s.now(ctx)
	if err != nil {
		return 0, err
	}
	silent := func(w bloom.Worker, now int64) bool {
		return w.Status != bloom.WorkerOffline && now-lifecycle.LastContact(w) > longer.Milliseconds()
	}
	var names []string
	for _, w := range all {
		if silent(w, now) {
			names = append(names, w.ID)
		}
	}
	set := make(chan string, len(names))
	s.each(names, func(id string) error {
		is := false
		_, err := s.onWorker(ctx, id, "runtime", func(w lifecycle.KnownWorker, now int64) (lifecycle.WorkerChange, bool) {
			is = silent(w.Worker, now)
			return lifecycle.SilenceWorker(w, longer), is
		})
		if err == nil && is {
			set <- id
		}
		return err
	}, notSilent)
	return len(set), nil
}

// RemoveWorker forgets a worker and puts what it held back in the queue.
func (s *Store) RemoveWorker(ctx context.Context, id, actor string) error {
	want := func(r *ReadSet) {
		r.Workers.Add(id)
		wantHeld(r, id, true)
	}
	_, err := do(ctx, s, want, func(u *Unit) (struct{}, error) { return struct{}{}, u.remove(id, actor) })
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
	gone := lifecycle.RemoveWorker(*w)
	// First, so that nothing released prefers the worker that goes.
	u.saveWorker(gone.Worker)
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
	u.auditWorker(gone, actor)
	return nil
}
