package store

import (
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

const (
	// fewCandidates is how many online workers are read for each choice. More are cached.
	fewCandidates = 256
	// candidatesFor is how long a cache is used that misses the changes of other processes.
	candidatesFor = time.Second
)

// candidates caches the online workers that a task may be leased to, with the number of
// their leases. It only suggests which worker to lock: if that one cannot take the task,
// all are read.
type candidates struct {
	mu      sync.Mutex
	workers map[string]*bloom.Worker // nil: not cached
	at      int64                    // when they were read, Unix milliseconds
}

// note caches what a unit read and committed.
func (c *candidates) note(u *Unit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, read := online.of(u.rows).Get(one)
	if read {
		c.workers, c.at = nil, u.Now
	}
	if len(all) > fewCandidates {
		c.workers = make(map[string]*bloom.Worker, len(all))
		for i := range all {
			c.workers[all[i].ID] = &all[i]
		}
	}
	if c.workers == nil {
		return
	}
	for id, n := range u.load {
		if w := c.workers[id]; w != nil {
			w.ActiveLeases += n
		}
	}
	for saved := range workers.changes(&u.c) {
		if saved.Removed || saved.Status != bloom.WorkerOnline {
			delete(c.workers, saved.ID)
			continue
		}
		w := saved.Worker
		w.ActiveLeases = u.load[w.ID]
		if was, _ := workers.of(u.rows).Get(w.ID); was != nil {
			w.ActiveLeases += was.ActiveLeases
		}
		c.workers[w.ID] = &w
	}
}

// clear empties the cache, after a commit whose outcome is not known.
func (c *candidates) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = nil
}

// cached returns the worker that the rule chooses among the cached ones. ok is false if
// they must be read.
func (u *Unit) cached(labels []string, context lifecycle.ContextWorkers) (id string, ok bool) {
	c := &u.s.candidates
	c.mu.Lock()
	defer c.mu.Unlock()
	alone := u.s.cfg.SealPoll == 0
	if c.workers == nil || !alone && (c.at > u.Now || u.Now-c.at >= candidatesFor.Milliseconds()) {
		return "", false
	}
	w, found := lifecycle.PickWorker(func(yield func(*bloom.Worker) bool) {
		for _, w := range c.workers {
			if n := u.load[w.ID]; n != 0 {
				loaded := *w
				loaded.ActiveLeases += n
				w = &loaded
			}
			if !yield(w) {
				return
			}
		}
	}, labels, context)
	if found {
		id = w.ID
	}
	return id, true
}
