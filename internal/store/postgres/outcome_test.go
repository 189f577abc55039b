package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestACrashReusesTransactionNumbers: a transaction whose commit never reached the server
// has a number that a crash forgets. The server assigns it again, and then reports it as committed.
func TestACrashReusesTransactionNumbers(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	lostAtCommit(t, cluster.URL(), func() string {
		cluster.Crash()
		cluster.Begin()
		return cluster.URL()
	})
}

// lostAtCommit cuts a creation at its commit, lets disaster happen, assigns the transaction's
// number to another one at the server that is there afterwards, and compares the caller's result
// with what is stored.
func lostAtCommit(t *testing.T, url string, disaster func() (after string)) {
	t.Helper()
	cut, through := startCutter(t, url)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: through, Patience: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	// The first number of a sequence is logged, and with it the transaction's.
	if _, _, err := s.CreateTask(t.Context(), storetest.Plain("context")); err != nil {
		t.Fatal(err)
	}
	n := storetest.Plain("context")
	n.Spec.Prompt = "the one that is cut off"
	cut.dropAt.Store(&n.Spec.Prompt)
	outcome := make(chan error, 1)
	go func() {
		_, _, err := s.CreateTask(t.Context(), n)
		outcome <- err
	}()
	<-cut.dropped
	var next int64
	const asked = `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`
	if err := connect(t, url).QueryRow(t.Context(), asked).Scan(&next); err != nil {
		t.Fatal(err)
	}
	after := disaster()
	useNumbers(t, after, next)
	cut.redirect(t, after)
	if err := <-outcome; err != nil {
		t.Errorf("the creation was not repeated: %v", err)
	}
	if _, err := s.Task(t.Context(), n.ID); err != nil {
		t.Errorf("an acknowledged task is lost: %v", err)
	}
	if tasks, _, err := s.Tasks(t.Context(), bloom.TaskQuery{}); err != nil || len(tasks) != 2 {
		t.Errorf("there are %d tasks, want 2: %v", len(tasks), err)
	}
	if err := storetest.CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// useNumbers commits transactions until all numbers below next are assigned.
func useNumbers(t *testing.T, url string, next int64) {
	t.Helper()
	c := connect(t, url)
	for n := int64(0); n < next; {
		err := pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
