package postgres_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestAFormerPrimaryThatReturnsIsRefused unchanged, first in the list of hosts and open to writes. Neither a
// store that has seen the promotion nor one that is opened afterwards, by an unprivileged user, may
// use it as the database.
func TestAFormerPrimaryThatReturnsIsRefused(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	cluster.AddStandby()
	either := cluster.EitherURL()
	if _, err := connect(t, either).Exec(t.Context(), `CREATE ROLE plain LOGIN; GRANT ALL ON SCHEMA public TO plain`); err != nil {
		t.Fatal(err)
	}
	plain := strings.Replace(either, "//bloom@", "//plain@", 1)
	plain = strings.Replace(plain, "&target_session_attrs=read-write", "", 1) // implied
	s := patient(t, plain)
	cluster.Crash()
	cluster.Promote()
	before := storetest.Plain("context")
	if _, _, err := s.CreateTask(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	cluster.Begin()
	if _, err := connect(t, cluster.StandbyURL()).Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*postgres.Store{"that lived through it": s, "opened since": patient(t, plain)} {
		after := storetest.Plain("context")
		if _, _, err := s.CreateTask(t.Context(), after); err != nil {
			t.Errorf("the store %s: %v", name, err)
		}
		for _, id := range []string{before.ID, after.ID} {
			if _, err := s.Task(t.Context(), id); err != nil {
				t.Errorf("the store %s lacks a task: %v", name, err)
			}
		}
	}
	// The connections that checked which of the two is the database must also be closed.
	untilOne(t, connect(t, cluster.URL()), `SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'bloom%' AND usename = 'plain'`)
}

// TestThePrimaryStopsResponding: its machine is down without closing connections. Each of the many
// connections to it hangs; all are abandoned together, and the promoted standby shows the outcome
// of the commits in progress.
func TestThePrimaryStopsResponding(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	cluster.AddStandby()
	cut, through := startCutter(t, cluster.URL())
	standby := strings.TrimPrefix(cluster.StandbyURL(), "postgres://bloom@")
	url := strings.Replace(strings.Replace(through, "/bloom?", ","+standby[:strings.Index(standby, "/")]+"/bloom?", 1), "sslmode=disable", "sslmode=disable&connect_timeout=1", 1)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Patience: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	register(t, s, "w", 32)
	var all sync.WaitGroup
	for i := range 8 { // the maximum number of connections
		all.Go(func() { register(t, s, fmt.Sprint("w", i), 1) })
	}
	all.Wait()
	cut.silent.Store(true)
	cluster.Crash()
	cluster.Promote()
	n, failed := storetest.Plain("context"), 0
	for ; ; failed++ {
		_, _, err := s.CreateTask(t.Context(), n)
		if err == nil {
			break
		}
		if failed == 6 { // fewer than there are connections
			t.Fatalf("refused for the seventh time: %v", err)
		}
	}
	cut.end() // otherwise a read may wait for a hanging connection, and so does closing
	created(t, s, n.ID)
	t.Logf("refused %d times", failed)
}
