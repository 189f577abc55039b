package httpapi_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// readCounter counts the reads of keys and sessions.
type readCounter struct {
	auth.Store
	keys, sessions atomic.Int64
}

func (s *readCounter) Key(ctx context.Context, id string) (contract.StoredKey, error) {
	s.keys.Add(1)
	return s.Store.Key(ctx, id)
}

func (s *readCounter) Session(ctx context.Context, id string) (contract.StoredSession, error) {
	s.sessions.Add(1)
	return s.Store.Session(ctx, id)
}

// stoppedClock always shows the same time.
type stoppedClock time.Time

func (c stoppedClock) Now() time.Time { return time.Time(c) }

// counted returns an authenticator with the fixture's keys and sessions whose reads are counted.
func (r *fixture) counted(clock timing.Clock) (*auth.Authenticator, *readCounter) {
	r.t.Helper()
	a, err := auth.New(auth.Config{AdminKey: adminKey, LoopbackOnly: true})
	must(r.t, err)
	seal, err := auth.OpenSealer(filepath.Join(r.dir, auth.SealKeyFile))
	must(r.t, err)
	store := &readCounter{Store: r.store}
	must(r.t, a.Open(r.t.Context(), store, seal, clock))
	r.t.Cleanup(a.Close)
	return a, store
}

// Invented key ids cause a bounded number of database reads, and do not affect keys that the server
// has read before.
func TestUnknownKeysAreReadAFewTimes(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	known, fresh := r.stored(auth.RoleViewer), r.stored(auth.RoleViewer)
	a, store := r.counted(stoppedClock(time.Now())) // so that no allowance grows
	ask := func(address, key string) error {
		req := r.request("GET", "/api/runtime/stats", "", auth.HeaderKey, key)
		req.RemoteAddr = address + ":1234"
		_, err := a.Authenticate(req)
		return err
	}
	must(t, ask("192.0.2.1", known))
	for i := range 3000 {
		id := []byte("aaaaaaaaaaaaaaaa")
		copy(id, fmt.Sprintf("%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676))
		if err := ask("192.0.2.1", "blm_"+string(id)+"_x"); bloom.KindOf(err) != bloom.KindUnauthorized && bloom.KindOf(err) != bloom.KindRateLimited {
			t.Fatalf("a made-up key: %v", err)
		}
	}
	if n := store.keys.Load(); n > 601 {
		t.Errorf("3000 made-up ids were read %d times", n)
	}
	must(t, ask("192.0.2.1", known))
	r.call(200, nil, "DELETE", "/keys/"+r.newKey(auth.RoleViewer).ID, "") // which clears the cache
	must(t, ask("192.0.2.1", known))
	must(t, ask("192.0.2.1", fresh)) // never read, from the flooding address
	must(t, ask("192.0.2.2", fresh))
}

// A stream opened with a session cookie continues when the session is renewed, and ends with the
// session.
func TestAStreamOutlivesTheTurnOfItsSession(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	cookie := cookieOf(t, r.call(200, nil, "POST", "/session", `{"key":"`+adminKey+`"}`))
	a, store := r.counted(r.clock)
	req := r.request("GET", "/api/runtime/events", "", "Cookie", cookie)
	req.Header.Del(auth.HeaderKey)
	caller, err := a.Authenticate(req)
	must(t, err)
	ended := make(chan error, 1)
	defer a.Watch(req, caller, func(err error) { ended <- err })()

	r.key = ""
	r.clock.by.Store(int64(2 * time.Hour))
	renewed := cookieOf(t, r.call(200, nil, "GET", "/session", "", "Cookie", cookie))
	r.clock.by.Store(int64(2*time.Hour + 2*time.Minute))
	r.fails(401, "unauthorized", "GET", "/stats", "", "Cookie", cookie)
	for checked := store.sessions.Load() + 2; store.sessions.Load() < checked; { // the first has ended
		select {
		case err := <-ended:
			t.Fatalf("ended by the renewal: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	r.call(200, nil, "DELETE", "/session", "", "Cookie", renewed)
	if err := <-ended; bloom.KindOf(err) != bloom.KindUnauthorized {
		t.Errorf("ended with %v", err)
	}
}
