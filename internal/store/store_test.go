package store_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
	"github.com/bloom-runtime/bloom/internal/timing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onBoth runs a test over both databases, with one transaction at a time.
func onBoth(t *testing.T, test func(t *testing.T, s *store.Store)) {
	t.Helper()
	onBothAt(t, func() timing.Clock { return nil }, func(t *testing.T, s *store.Store, _ timing.Clock) { t.Helper(); test(t, s) })
}

// onBothAt is onBoth with a clock for each database; nil: the database's.
func onBothAt[C timing.Clock](t *testing.T, newClock func() C, test func(t *testing.T, s *store.Store, clock C)) {
	t.Helper()
	opens := map[string]func(t *testing.T, clock timing.Clock) (*store.Store, error){
		"sqlite": func(t *testing.T, clock timing.Clock) (*store.Store, error) {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "bloom.db"), Clock: clock})
			if err != nil {
				return nil, err
			}
			return s.Store, nil
		},
		"postgresql": func(t *testing.T, clock timing.Clock) (*store.Store, error) {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.Start(t), Parallel: 1, Clock: clock})
			if err != nil {
				return nil, err
			}
			return s.Store, nil
		},
	}
	for name, open := range opens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := newClock()
			s, err := open(t, clock)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, s, clock)
			if err := storetest.CheckInvariants(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
}

// register registers the worker w.
func register(t *testing.T, s *store.Store) {
	t.Helper()
	_, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w", InstanceID: "w-1", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 32}}, "w")
	if err != nil {
		t.Fatal(err)
	}
}

// leased creates a task and leases it.
func leased(t *testing.T, s *store.Store, contextID string) (task, lease string) {
	t.Helper()
	n := storetest.Plain(contextID)
	_, _, err := s.CreateTask(t.Context(), n)
	var l bloom.Lease
	if err == nil {
		l, _, err = s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: n.ID, WorkerID: "w"})
	}
	if err == nil {
		_, err = s.Heartbeat(t.Context(), n.ID, l.ID, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n.ID, l.ID
}

// An operation whose read set never ends is a bug of the program: no row is treated as bad.
func TestAnEndlessReadIsNotABadRow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		if bad, err := store.Endless(t.Context(), s); err == nil || bad {
			t.Errorf("failed with %v, a bad row: %v", err, bad)
		}
	})
}

func TestABugIsNoUnavailableDatabase(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		t.Helper()
		err := store.Do(t.Context(), s, func(*store.Changes) error { panic("a bug") })
		if bloom.KindOf(err) != bloom.KindInternal || s.WritesFail() != "" {
			t.Errorf("%v, and writes fail because %q", err, s.WritesFail())
		}
	})
}
