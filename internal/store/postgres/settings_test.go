package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

// TestALockedTaskHoldsUpNobodyElse has somebody lock a task's row by hand.
func TestALockedTaskHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	s := open(t, url, nil)
	register(t, s, "w", 1)
	id := post(t, s, "locked")
	l, _, err := s.LeaseTask(t.Context(), bloom.LeaseRequest{TaskID: id})
	if err != nil {
		t.Fatal(err)
	}
	holder, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `SELECT FROM llm_tasks WHERE id = $1 FOR UPDATE`, id); err != nil {
		t.Fatal(err)
	}
	beat := make(chan error, 1)
	go func() {
		_, err := s.Heartbeat(t.Context(), id, l.ID)
		beat <- err
	}()
	for i := range 20 {
		post(t, s, fmt.Sprint("free", i))
	}
	select {
	case err := <-beat:
		t.Errorf("the heartbeat did not wait for the lock: %v", err)
	default:
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-beat; err != nil {
		t.Errorf("once the lock is gone: %v", err)
	}
}

// TestSlotsHoldWhateverTheDatabaseIsTold sets an isolation in which a lock does
// not show what it waited for.
func TestSlotsHoldWhateverTheDatabaseIsTold(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	before := connect(t, url)
	if _, err := before.Exec(t.Context(), `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''', current_database());
		EXECUTE format('ALTER DATABASE %I SET client_encoding = ''LATIN1''', current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
	stores := []*postgres.Store{open(t, url, nil), open(t, url, nil)}
	for round := range 10 {
		worker := fmt.Sprint("w", round)
		register(t, stores[0], worker, 1)
		var granted atomic.Int64
		var callers sync.WaitGroup
		for i := range 6 {
			s := stores[i%2]
			id := post(t, s, fmt.Sprint("grüße ✓ 漢", round, i))
			callers.Go(func() {
				_, _, err := s.LeaseTask(t.Context(), bloom.LeaseRequest{TaskID: id, WorkerID: worker})
				if err == nil {
					granted.Add(1)
				} else if !errors.Is(err, bloom.ErrNoWorker) {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		if granted.Load() != 1 {
			t.Errorf("%s has one slot and got %d tasks", worker, granted.Load())
		}
	}
	var n int
	if err := before.QueryRow(t.Context(), `SELECT count(*) FROM llm_tasks WHERE context_id LIKE 'grüße ✓ 漢%'`).Scan(&n); err != nil || n != 60 {
		t.Errorf("%d of 60 texts came in whole: %v", n, err)
	}
}

func TestADatabaseThatCannotHoldAllTextIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	if _, err := connect(t, url).Exec(t.Context(), `CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(url, "/")
	_, query, _ := strings.Cut(url[at:], "?")
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: url[:at] + "/latin?" + query}); err == nil || !strings.Contains(err.Error(), "UTF8") {
		t.Errorf("opened with %v", err)
	}
}

func TestAHalfImportedDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	if _, err := connect(t, url).Exec(t.Context(), `CREATE TABLE bloom_import (name text PRIMARY KEY, upto bigint NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: url}); !errors.Is(err, postgres.ErrHalfImported) {
		t.Errorf("opened with %v", err)
	}
}

// TestUnheardNewsIsToldOf cuts the connection on which a replica listens.
func TestUnheardNewsIsToldOf(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	s := open(t, url, nil)
	missed := make(chan struct{}, 10)
	defer s.Subscribe(func(changes []bloom.Change) {
		for _, c := range changes {
			if c.Kind == bloom.ChangeMissed {
				missed <- struct{}{}
			}
		}
	})()
	if _, err := connect(t, url).Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bloom-news'
		AND datname = current_database()`); err != nil {
		t.Fatal(err)
	}
	select {
	case <-missed:
	case <-time.After(20 * time.Second):
		t.Fatal("what was told meanwhile is lost and nobody says so")
	}
}
