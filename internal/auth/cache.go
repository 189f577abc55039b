package auth

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/bloom-runtime/bloom"
)

const (
	// freshFor and lookUp together bound how long a revoked key is still accepted: the age of an
	// entry when it is used, and the time to read it.
	freshFor = 2500 * time.Millisecond
	lookUp   = 2 * time.Second
	// maxCached bounds the entries of a cache.
	maxCached = 4096
	// noteEvery is how often the last use of a key is recorded.
	noteEvery = time.Minute
)

// cache keeps what was read by id for a moment, including that it does not exist.
type cache[T any] struct {
	mu      sync.Mutex
	entries map[string]entry[T]
	round   uint64 // grows when the cache is cleared
	flights singleflight.Group
}

type entry[T any] struct {
	value T
	err   error // NotFound, or nil
	read  time.Time
}

// get returns the result of read for id, or a recent one. Concurrent callers with the same id share
// one read.
func (c *cache[T]) get(ctx context.Context, id string, read func(context.Context, string) (T, error)) (T, error) {
	c.mu.Lock()
	e, ok := c.entries[id]
	round := c.round
	c.mu.Unlock()
	if ok && time.Since(e.read) < freshFor {
		return e.value, e.err
	}
	v, err, _ := c.flights.Do(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookUp)
		defer cancel()
		e := entry[T]{read: time.Now()}
		e.value, e.err = read(ctx, id)
		if e.err == nil || bloom.KindOf(e.err) == bloom.KindNotFound {
			c.put(id, e, round)
		}
		return e.value, e.err
	})
	return v.(T), err //nolint:forcetypeassert // the function above returns a T
}

func (c *cache[T]) put(id string, e entry[T], round uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.round != round {
		return // read before the cache was cleared
	}
	if c.entries == nil {
		c.entries = map[string]entry[T]{}
	}
	if len(c.entries) >= maxCached {
		for old, x := range c.entries {
			if time.Since(x.read) >= freshFor || len(c.entries) >= maxCached {
				delete(c.entries, old)
			}
		}
	}
	c.entries[id] = e
}

func (c *cache[T]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
	c.round++
}

// uses holds when keys and sessions were last used, until that is recorded.
type uses struct {
	mu             sync.Mutex
	keys, sessions map[string]int64
	noted          map[string]int64 // last recorded use, by id
}

func (u *uses) key(id string, at time.Time)     { u.note(&u.keys, id, at) }
func (u *uses) session(id string, at time.Time) { u.note(&u.sessions, id, at) }

func (u *uses) note(m *map[string]int64, id string, at time.Time) {
	ms := bloom.Millis(at)
	u.mu.Lock()
	defer u.mu.Unlock()
	if ms-u.noted[id] < noteEvery.Milliseconds() {
		return
	}
	if *m == nil {
		*m = map[string]int64{}
	}
	if _, there := (*m)[id]; there || len(*m) < maxCached {
		(*m)[id] = ms
	}
}

func (u *uses) take() (keys, sessions map[string]int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	keys, sessions = u.keys, u.sessions
	u.keys, u.sessions = nil, nil
	if u.noted == nil || len(u.noted) > maxCached {
		u.noted = map[string]int64{}
	}
	for _, m := range []map[string]int64{keys, sessions} {
		for id, at := range m {
			u.noted[id] = at
		}
	}
	return keys, sessions
}

// Flush records when keys and sessions were last used, each at most once a minute. What cannot be
// recorded now is lost; the next use is recorded.
func (a *Authenticator) Flush(ctx context.Context) (int, error) {
	keys, sessions := a.used.take()
	n := len(keys) + len(sessions)
	if n == 0 || a.store == nil {
		return 0, nil
	}
	return n, a.store.NoteUse(ctx, keys, sessions)
}
