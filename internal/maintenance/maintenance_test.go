package maintenance_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/timing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that tests move; its monotonic part moves along.
type clock struct {
	mu    sync.Mutex
	base  time.Time
	ahead time.Duration
}

func newClock() *clock { return &clock{base: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base.Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func open(t *testing.T, c timing.Clock) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "bloom.db"), Clock: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// leased creates a task that a worker has leased for a minute.
func leased(t *testing.T, s contract.Store) bloom.Lease {
	t.Helper()
	if _, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w", Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 4}}, "test"); err != nil {
		t.Fatal(err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	_, _, err := s.CreateTask(t.Context(), contract.NewTask{ID: id, BodyHash: "h", Spec: bloom.TaskSpec{
		ContextID: "c", AgentSlug: "a", Prompt: "p", MaxAttempts: 3, DesiredFormat: "text", Policy: bloom.Policy{TimeoutSec: 120},
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: id, TTLSec: 60})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func status(t *testing.T, s contract.Store, id string) bloom.TaskStatus {
	t.Helper()
	task, err := s.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return task.Status
}

func runOnce(t *testing.T, l *maintenance.Loop) maintenance.Result {
	t.Helper()
	res, err := l.RunOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestOverdueLeasesAreReapedAfterOneGrace(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	l := leased(t, s)
	c.advance(2 * time.Minute)
	reaper := maintenance.NewReaper(maintenance.ReaperConfig{Store: s, Clock: c})
	if runOnce(t, reaper); status(t, s, l.TaskID) != bloom.TaskLeased {
		t.Fatal("the first run after a start left no grace")
	}
	c.advance(59 * time.Second)
	if runOnce(t, reaper); status(t, s, l.TaskID) != bloom.TaskLeased {
		t.Fatal("the grace is shorter than the lease")
	}
	c.advance(2 * time.Second)
	if res := runOnce(t, reaper); res.Changed != 1 || status(t, s, l.TaskID) != bloom.TaskQueued {
		t.Fatalf("an overdue lease was not reaped: %+v", res)
	}
}

// TestAJumpOfTheStoresClockIsFollowedByAGrace: PostgreSQL's clock may jump while the server runs, or
// another machine's takes its place.
func TestAJumpOfTheStoresClockIsFollowedByAGrace(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"forward": 10 * time.Minute, "back": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, local := newClock(), newClock()
			s := open(t, stored)
			l := leased(t, s)
			reaper := maintenance.NewReaper(maintenance.ReaperConfig{Store: s, Clock: local})
			runOnce(t, reaper)
			stored.advance(by)
			if runOnce(t, reaper); status(t, s, l.TaskID) != bloom.TaskLeased {
				t.Fatal("workers got no grace")
			}
			stored.advance(61 * time.Second)
			local.advance(61 * time.Second)
			if runOnce(t, reaper); status(t, s, l.TaskID) != bloom.TaskQueued {
				t.Fatal("the dead worker's lease lasts longer than its TTL")
			}
		})
	}
}

// slow is a store whose answer with the time takes a while.
type slow struct {
	contract.Store
	wait func()
}

func (s slow) Time(ctx context.Context) (int64, error) {
	defer s.wait()
	return s.Store.Time(ctx)
}

func TestASlowStoreIsNoJumpOfItsClock(t *testing.T) {
	t.Parallel()
	c, takes := newClock(), time.Duration(0)
	s := slow{open(t, c), func() { c.advance(takes) }}
	l := leased(t, s)
	reaper := maintenance.NewReaper(maintenance.ReaperConfig{Store: s, Clock: c})
	for _, takes = range []time.Duration{0, 10 * time.Second, 0} {
		runOnce(t, reaper)
		c.advance(31 * time.Second)
	}
	if status(t, s, l.TaskID) != bloom.TaskQueued {
		t.Error("the dead worker's lease lasts longer than its TTL")
	}
}

// outage is a store whose reaping can be made to fail.
type outage struct {
	contract.Store
	mu   sync.Mutex
	down bool
}

func (o *outage) Reap(ctx context.Context, limit int) (contract.Reaped, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		return contract.Reaped{}, bloom.ErrUnavailable
	}
	return o.Store.Reap(ctx, limit)
}

func (o *outage) set(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
}

func TestAnOutageIsFollowedByAGraceAndLoggedOnce(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := &outage{Store: open(t, c)}
	l := leased(t, s)
	var log bytes.Buffer
	reaper := maintenance.NewReaper(maintenance.ReaperConfig{Store: s, Clock: c, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	runOnce(t, reaper)
	s.set(true)
	for range 3 {
		if _, err := reaper.RunOnce(t.Context()); err == nil {
			t.Fatal("an outage went unnoticed")
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Fatalf("an outage was logged %d times:\n%s", n, log.String())
	}
	c.advance(10 * time.Minute)
	s.set(false)
	if runOnce(t, reaper); status(t, s, l.TaskID) != bloom.TaskLeased {
		t.Fatal("workers got no grace after the outage")
	}
	if n := strings.Count(log.String(), "works again"); n != 1 {
		t.Fatalf("the end of the outage was logged %d times", n)
	}
}

// A replica that cannot ask whether it leads, or no longer leads, does not run the loop.
func TestLeadershipThatReturnsIsFollowedByAGrace(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]struct {
		leads bool
		err   error
	}{
		"the database is unreachable": {err: bloom.ErrUnavailable},
		"another replica leads":       {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			s := open(t, c)
			l := leased(t, s)
			leads, err := true, error(nil)
			reaper := maintenance.NewReaper(maintenance.ReaperConfig{Store: s, Clock: c}).
				OnlyLeader(func(context.Context) (bool, error) { return leads, err })
			runOnce(t, reaper)
			leads, err = without.leads, without.err
			if _, got := reaper.RunOnce(t.Context()); !errors.Is(got, err) {
				t.Fatalf("a run without leadership: %v", got)
			}
			c.advance(10 * time.Minute)
			leads, err = true, nil
			if runOnce(t, reaper); status(t, s, l.TaskID) != bloom.TaskLeased {
				t.Fatal("workers got no grace")
			}
			c.advance(2 * time.Minute)
			if runOnce(t, reaper); status(t, s, l.TaskID) != bloom.TaskQueued {
				t.Fatal("the grace never ends")
			}
		})
	}
}

func TestSilentWorkersGoOffline(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	leased(t, s)
	silent := maintenance.NewSilentWorkers(maintenance.SilentWorkersConfig{Store: s})
	if res := runOnce(t, silent); res.Changed != 0 {
		t.Fatalf("a fresh worker went offline: %+v", res)
	}
	c.advance(bloom.OfflineAfter + time.Second)
	if res := runOnce(t, silent); res.Changed != 1 {
		t.Fatalf("a silent worker stayed online: %+v", res)
	}
}
