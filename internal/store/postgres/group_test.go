package postgres_test

import (
	"context"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// TestDeadlinesAreExtendedDuringHeartbeats: a heartbeat updates its lease without locking the task, and
// must not block the extension of all deadlines.
func TestDeadlinesAreExtendedDuringHeartbeats(t *testing.T) {
	t.Parallel()
	address := migrated.Start(t)
	r := &replicas{t: t, own: open(t, address, nil)}
	register(t, r.own, "w", 4)
	_, lease := r.leased("w")
	ctx, stop := context.WithCancel(t.Context())
	var heartbeats sync.WaitGroup
	for range 2 {
		c := connect(t, address)
		heartbeats.Go(func() {
			_, _ = c.Exec(ctx, `DO $$ BEGIN LOOP UPDATE leases SET last_heartbeat = last_heartbeat + 1 WHERE id = '`+lease+`'; COMMIT; END LOOP; END $$`)
		})
	}
	for range 5 {
		if _, err := r.own.ExtendLeases(t.Context()); err != nil {
			t.Error(err)
		}
	}
	stop()
	heartbeats.Wait()
}

// TestABlockedCommitCheckIsRetried: a caller that cannot immediately find out the outcome of a
// commit must neither guess nor repeat the operation.
func TestABlockedCommitCheckIsRetried(t *testing.T) {
	t.Parallel()
	address := migrated.Start(t)
	cut, through := startCutter(t, address)
	r := &replicas{t: t, own: open(t, through, nil)}
	task := r.created("context")
	actor := "whose connection is cut"
	cut.deliver.Store(true)
	cut.dropAt.Store(&actor)
	outcome := make(chan error, 1)
	go func() {
		_, err := r.own.Cancel(t.Context(), task, actor)
		outcome <- err
	}()
	<-cut.dropped
	c := connect(t, address)
	untilOne(t, c, `SELECT EXISTS (SELECT FROM audit_logs WHERE actor = '`+actor+`')`)
	err := pgx.BeginFunc(t.Context(), c, func(lock pgx.Tx) error {
		if _, err := lock.Exec(t.Context(), `SELECT FROM counters FOR UPDATE`); err != nil {
			return err
		}
		cut.redirect(t, address)
		_, err := lock.Exec(t.Context(), `SELECT pg_sleep(1.5)`) // longer than the check waits for a lock
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-outcome; err != nil {
		t.Errorf("the cancelling that was done is refused: %v", err)
	}
}

// TestALoginMayHaveAnotherRole: a role that is set for the login may not see the login's own processes.
func TestALoginMayHaveAnotherRole(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	if _, err := connect(t, cluster.URL()).Exec(t.Context(), `CREATE ROLE app; CREATE ROLE login LOGIN IN ROLE app; ALTER ROLE login SET role = 'app';
		GRANT ALL ON DATABASE bloom TO app; GRANT ALL ON SCHEMA public TO app`); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("login")
	cut, through := startCutter(t, u.String())
	r := &replicas{t: t, own: open(t, through, nil)}
	task := r.created("context")
	cut.deliver.Store(true)
	cut.dropAt.Store(&task)
	outcome := make(chan error, 1)
	go func() {
		_, err := r.own.Cancel(t.Context(), task, "test")
		outcome <- err
	}()
	<-cut.dropped
	cut.redirect(t, u.String())
	if err := <-outcome; err != nil {
		t.Error(err)
	}
}
