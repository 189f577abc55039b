package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

func TestALockIsHeldByOneAndHandedOver(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	a, b := open(t, url, nil), open(t, url, nil)
	first, ok, err := a.TryLock(t.Context(), "reaper")
	if err != nil || !ok {
		t.Fatalf("first: %v, %v", ok, err)
	}
	if _, ok, err := b.TryLock(t.Context(), "reaper"); err != nil || ok {
		t.Fatalf("a second holder: %v, %v", ok, err)
	}
	other, ok, err := b.TryLock(t.Context(), "retention")
	if err != nil || !ok {
		t.Fatalf("another name: %v, %v", ok, err)
	}
	defer other.Release()
	if err := first.Held(t.Context()); err != nil {
		t.Error(err)
	}
	// The holder's connection dies: it must notice, and another one may get the lock.
	if _, err := connect(t, url).Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bloom-reaper'`); err != nil {
		t.Fatal(err)
	}
	if err := first.Held(t.Context()); !errors.Is(err, postgres.ErrLockLost) {
		t.Errorf("the dead holder says %v", err)
	}
	first.Release()
	for {
		second, ok, err := b.TryLock(t.Context(), "reaper")
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			second.Release()
			return
		}
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	s := open(t, url, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, url).Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: url}); !errors.Is(err, schema.ErrNewerSchema) {
		t.Errorf("opened with %v", err)
	}
}

func TestReplicasThatStartTogetherMigrateOnce(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	var opened atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err != nil {
				t.Error(err)
				return
			}
			opened.Add(1)
			_ = s.Close()
		})
	}
	all.Wait()
	if opened.Load() != 4 {
		t.Errorf("%d of 4 opened", opened.Load())
	}
}

func TestAWrongAddressShowsNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:hunter2secret@127.0.0.1:1/db", "postgres://u:hunter2secret@[bad"} {
		_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err == nil || strings.Contains(err.Error(), "hunter2secret") {
			t.Errorf("says %v", err)
		}
	}
}

// TestTheServersClockDecides: replicas do not use their own clocks.
func TestTheServersClockDecides(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	s := open(t, url, nil)
	task, _, err := s.CreateTask(t.Context(), storetest.Plain("context"))
	if err != nil {
		t.Fatal(err)
	}
	var now int64
	if err := connect(t, url).QueryRow(t.Context(), `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	if d := now - task.CreatedAt; d < 0 || d > 60_000 {
		t.Errorf("created %d ms before the server's time", d)
	}
}
