package auth

import (
	"context"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/timing"
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

// cache keeps what was read by id for a moment. Ids that do not exist are kept apart, so that
// made-up ones do not displace real ones.
type cache[T any] struct {
	mu      sync.Mutex
	entries map[string]entry[T]
	absent  map[string]entry[error] // NotFound
	round   uint64                  // grows when the cache is cleared; entries of earlier rounds are read again
	flights singleflight.Group
}

type entry[T any] struct {
	value T
	read  time.Time
	round uint64
}

func (e entry[T]) fresh(round uint64) bool {
	return e.round == round && !e.read.IsZero() && time.Since(e.read) < freshFor
}

// has reports whether id was read, however long ago, and is still kept.
func (c *cache[T]) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.entries[id]
	return ok
}

// get returns the result of read for id, or a recent one. Concurrent callers with the same id share
// one read.
func (c *cache[T]) get(ctx context.Context, id string, read func(context.Context, string) (T, error)) (T, error) {
	c.mu.Lock()
	e, x, round := c.entries[id], c.absent[id], c.round
	c.mu.Unlock()
	if e.fresh(round) {
		return e.value, nil
	}
	if x.fresh(round) {
		var none T
		return none, x.value
	}
	v, err, _ := c.flights.Do(strconv.FormatUint(round, 10)+" "+id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookUp)
		defer cancel()
		began := time.Now()
		v, err := read(ctx, id)
		switch {
		case err == nil:
			put(c, &c.entries, id, entry[T]{v, began, round})
		case bloom.KindOf(err) == bloom.KindNotFound:
			put(c, &c.absent, id, entry[error]{err, began, round})
		}
		return v, err
	})
	return v.(T), err //nolint:forcetypeassert // the function above returns a T
}

func put[T, V any](c *cache[T], m *map[string]entry[V], id string, e entry[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.round != e.round {
		return // read before the cache was cleared
	}
	if *m == nil {
		*m = map[string]entry[V]{}
	}
	for old := range *m { // in random order
		if len(*m) < maxCached {
			break
		}
		delete(*m, old)
	}
	(*m)[id] = e
}

func (c *cache[T]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
}

// listedEvery is how often the ids of all keys are read during a flood of unknown ones.
const listedEvery = time.Second

// keyIDs are the ids of all keys, so that a flood of unknown keys locks out no valid one.
type keyIDs struct {
	mu   sync.Mutex
	ids  map[string]bool
	read time.Time
}

// has reports whether a key exists, as of the last listedEvery. It reports false if the keys cannot
// be read.
func (k *keyIDs) has(ctx context.Context, store Store, id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.read) < listedEvery {
		return k.ids[id]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookUp) // the result is for others, too
	defer cancel()
	ids, page := map[string]bool{}, bloom.Page{Limit: bloom.MaxPageSize}
	for {
		keys, next, err := store.Keys(ctx, page)
		if err != nil {
			break
		}
		for i := range keys {
			ids[keys[i].ID] = true
		}
		if next == (bloom.Cursor{}) {
			break
		}
		page.Cursor = next
	}
	k.ids, k.read = ids, time.Now()
	return ids[id]
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
	ms := timing.Millis(at)
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
