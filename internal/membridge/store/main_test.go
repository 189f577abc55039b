package store_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom/internal/membridge/store"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/timing"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// backend is one of the databases that the suite runs over.
type backend struct {
	name string
	// place creates an empty database and returns a function that opens it, repeatedly.
	place func(t testing.TB) func(t testing.TB, clock timing.Clock) *store.Store
}

var backends = []backend{
	{"sqlite", func(t testing.TB) func(testing.TB, timing.Clock) *store.Store {
		path := filepath.Join(t.TempDir(), "membridge.db")
		return func(t testing.TB, clock timing.Clock) *store.Store { return open(t, "", path, clock) }
	}},
	{"postgres", func(t testing.TB) func(testing.TB, timing.Clock) *store.Store {
		url := pgtest.Start(t)
		return func(t testing.TB, clock timing.Clock) *store.Store { return open(t, url, "", clock) }
	}},
}

func open(t testing.TB, url, path string, clock timing.Clock) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, path, clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// overBoth runs a test over each database, with a clock that the test moves.
func overBoth(t *testing.T, test func(t *testing.T, s *store.Store, clock *handClock)) {
	t.Helper()
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			clock := newHandClock()
			test(t, b.place(t)(t, clock), clock)
		})
	}
}

// handClock stands still until it is moved.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func newHandClock() *handClock { return &handClock{now: time.UnixMilli(1_772_042_245_043)} }

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func ptr[T any](v T) *T { return &v }
