package store

import (
	"context"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// contact records that a worker's process contacted the server, and sets the worker
// online. The caller has checked that no other process conflicts with it.
func (u *Unit) contact(w *lifecycle.KnownWorker, instanceID string) {
	c := w.Contact(instanceID, u.Now)
	if c.Action == "" && !c.Contact {
		return
	}
	workers.put(u, w.ID, &c.Worker)
	u.auditWorker(c, w.ID)
}

// noteContact records a contact that came with a lease, at most every
// lifecycle.ContactInterval. It skips a worker that another transaction has locked,
// and one that was removed: it may still report a late lease.
func (u *Unit) noteContact(workerID string) error {
	if _, read := workers.of(u.rows).Get(workerID); !read && u.s.contacts.recent(workerID, u.Now) {
		return nil
	}
	w, err := u.worker(workerID)
	if isNotFound(err) || u.locked(err) {
		return nil
	}
	if err != nil {
		return err
	}
	u.contact(w, "")
	return nil
}

// contacts caches when each worker's contact was last written, so that a heartbeat
// need not read the worker.
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

// note caches a committed worker.
func (c *contacts) note(w *lifecycle.KnownWorker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.Removed || w.Silent() {
		delete(c.seen, w.ID)
		return
	}
	if c.seen == nil || len(c.seen) >= bloom.MaxWorkers {
		c.seen = make(map[string]int64)
	}
	c.seen[w.ID] = w.InstanceSeen
}

// MarkSilent sets workers offline that had no contact for longer than silence, each
// in its own operation.
func (s *Store) MarkSilent(ctx context.Context, silence time.Duration) (int, error) {
	all, err := s.Workers(ctx)
	if err != nil {
		return 0, s.explain(err)
	}
	now, err := s.Time(ctx)
	if err != nil {
		return 0, err
	}
	silent := func(w bloom.Worker, now int64) bool {
		return w.Status != bloom.WorkerOffline && lifecycle.Silence(lifecycle.LastContact(w), now) > silence.Milliseconds()
	}
	var names []string
	for _, w := range all {
		if silent(w, now) {
			names = append(names, w.ID)
		}
	}
	marked := make(chan string, len(names))
	s.forEach(names, func(id string) error {
		still := false
		_, err := s.onWorker(ctx, id, "runtime", func(w lifecycle.KnownWorker, now int64) (lifecycle.WorkerChange, bool) {
			still = silent(w.Worker, now)
			return lifecycle.SilenceWorker(w, silence), still
		})
		if err == nil && still {
			marked <- id
		}
		return err
	}, notSilent)
	return len(marked), nil
}
