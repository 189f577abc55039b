package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// patient opens a store whose calls last through a promotion.
func patient(t *testing.T, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestTheStandbyIsPromotedUnderLoad kills the primary while two replicas work, and promotes its
// synchronous standby. No call fails, and no acknowledged result is lost or duplicated.
func TestTheStandbyIsPromotedUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	cluster.AddStandby()
	stores := []*postgres.Store{patient(t, cluster.EitherURL()), patient(t, cluster.EitherURL())}
	register(t, stores[0], "w", 32)
	h := &history{completed: map[string]string{}, created: map[string]bool{}}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 12 {
		clients.Go(func() { h.live(t, stores[i%2], i, stop) })
	}
	h.until(t, 100)
	cluster.Crash()
	down := time.Now()
	cluster.Promote()
	promoted, before := time.Now(), h.ended()
	h.until(t, before+1)
	t.Logf("crashed with %d tasks done; promoted after %s; the next task was done %s after that", before, promoted.Sub(down).Round(time.Millisecond), time.Since(promoted).Round(time.Millisecond))
	h.until(t, before+100)
	close(stop)
	clients.Wait()
	h.check(t, stores)
}

// until waits until so many tasks have ended.
func (h *history) until(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); h.ended() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("only %d of %d tasks ended in a minute", h.ended(), n)
		}
	}
}

// TestAPromotionReusesTransactionNumbers: the standby does not know what the primary had
// not written to its log.
func TestAPromotionReusesTransactionNumbers(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	cluster.AddStandby()
	lostAtCommit(t, cluster.URL(), func() string {
		cluster.Crash()
		cluster.Promote()
		return cluster.StandbyURL()
	})
}

// TestACommitThatTheStandbyLacksIsRepeated: its standby is down, so the commit is on the primary but not
// acknowledged. When the primary is lost, so is the commit.
func TestACommitThatTheStandbyLacksIsRepeated(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	cluster.AddStandby()
	s := patient(t, cluster.EitherURL())
	outcome, n := createUnsafely(t, cluster, s)
	cluster.Crash()
	cluster.BeginStandby()
	cluster.Promote()
	if err := <-outcome; err != nil {
		t.Errorf("the creation was not repeated: %v", err)
	}
	created(t, s, n.ID)
}

// TestACommitWaitsForTheStandby: whatever ends the wait of a commit for the standby, its presence
// on the primary must not count as success. PostgreSQL even answers a cancelled wait with success
// and a warning.
func TestACommitWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"the connection is cut": "pg_terminate_backend", "the wait is cancelled": "pg_cancel_backend"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := pgtest.NewCluster(t)
			cluster.AddStandby()
			s := patient(t, cluster.EitherURL())
			outcome, n := createUnsafely(t, cluster, s)
			primary := connect(t, cluster.URL())
			for range 2 { // the commit's, and then the check's
				var since time.Time
				if err := primary.QueryRow(t.Context(), `SELECT query_start FROM pg_stat_activity WHERE `+waitsForStandby).Scan(&since); err != nil {
					t.Fatal(err)
				}
				if _, err := primary.Exec(t.Context(), `SELECT `+end+`(pid) FROM pg_stat_activity WHERE `+waitsForStandby); err != nil {
					t.Fatal(err)
				}
				untilOne(t, primary, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE `+waitsForStandby+` AND query_start > $1)`, since)
			}
			select {
			case err := <-outcome:
				t.Fatalf("the creation was answered with %v while only the primary has it", err)
			default:
			}
			cluster.BeginStandby()
			if err := <-outcome; err != nil {
				t.Error(err)
			}
			created(t, s, n.ID)
		})
	}
}

const waitsForStandby = `wait_event = 'SyncRep' AND application_name = 'bloom'`

// createUnsafely creates a task while the standby is down, and returns when the commit waits for
// it.
func createUnsafely(t *testing.T, cluster *pgtest.Cluster, s *postgres.Store) (<-chan error, contract.NewTask) {
	t.Helper()
	cluster.CrashStandby()
	n, outcome := storetest.Plain("context"), make(chan error, 1)
	go func() {
		_, _, err := s.CreateTask(context.WithoutCancel(t.Context()), n)
		outcome <- err
	}()
	untilOne(t, connect(t, cluster.URL()), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE `+waitsForStandby+`)`)
	return outcome, n
}

func untilOne(t *testing.T, c *pgx.Conn, question string, args ...any) {
	t.Helper()
	for yes, deadline := false, time.Now().Add(3*time.Minute); !yes; time.Sleep(5 * time.Millisecond) {
		if err := c.QueryRow(t.Context(), question, args...).Scan(&yes); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("never true: %s", question)
		}
	}
}

// created checks that there is one task, and its id.
func created(t *testing.T, s *postgres.Store, id string) {
	t.Helper()
	tasks, _, err := s.Tasks(t.Context(), bloom.TaskQuery{})
	if err != nil || len(tasks) != 1 || tasks[0].ID != id {
		t.Errorf("the tasks are %s, %v; want only %s", storable.MustJSON(tasks), err, id)
	}
	if err := storetest.CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
}
