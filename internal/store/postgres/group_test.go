package postgres_test

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// together calls operations so that they are committed in one group, in this
// order: the lane is held up by a row that somebody else has locked.
func together(t *testing.T, s *postgres.Store, address string, ops ...func()) {
	t.Helper()
	r := &rivals{t: t, own: s}
	task, lease := r.leased("w")
	c := connect(t, address)
	lock, err := c.Begin(t.Context())
	if err == nil {
		_, err = lock.Exec(t.Context(), `SELECT FROM leases WHERE id = $1 FOR UPDATE`, lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { _, _ = s.Heartbeat(t.Context(), task, lease) })
	untilOne(t, c, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
	for i, op := range ops {
		all.Go(op)
		for postgres.Queued(s) <= i {
			time.Sleep(time.Millisecond)
		}
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	all.Wait()
}

func TestWhatMeetsInAGroup(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]func(t *testing.T, r *rivals, address string){
		"a task is created and leased": func(t *testing.T, r *rivals, address string) {
			n := storetest.Plain("context")
			together(t, r.own, address, func() { _, _, _ = r.own.CreateTask(t.Context(), n) }, func() {
				if _, _, err := r.own.LeaseTask(t.Context(), bloom.LeaseRequest{TaskID: n.ID, WorkerID: "w"}); err != nil {
					t.Error(err)
				}
			})
			if events, err := r.own.Events(t.Context(), n.ID, 0, 0); err != nil || len(events) != 2 || events[1].Type != bloom.EventLeased {
				t.Errorf("the stream is %s, %v", bloom.MustJSON(events), err)
			}
		},
		"a task is given back and leased": func(t *testing.T, r *rivals, address string) {
			task, lease := r.leased("w")
			together(t, r.own, address,
				func() { _, _ = r.own.Release(t.Context(), task, bloom.ReleaseSpec{LeaseID: lease}, "w") },
				func() { _, _, _ = r.own.LeaseTask(t.Context(), bloom.LeaseRequest{TaskID: task, WorkerID: "w"}) })
			untilOne(t, connect(t, address), `SELECT status = 'leased' AND preferred_worker IS NULL FROM llm_tasks WHERE id = '`+task+`'`)
		},
		"a claim names what another does not": func(t *testing.T, r *rivals, address string) {
			_, lease := r.leased("w")
			claim := func(held ...string) func() {
				return func() {
					got, err := r.own.Claim(t.Context(), bloom.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Held: held})
					if err != nil {
						t.Error(err)
					}
					for _, l := range got.Leases {
						if l.Task.Prompt == "" {
							t.Errorf("%s is handed over without its prompt", l.Task.ID)
						}
					}
				}
			}
			together(t, r.own, address, claim(lease), claim())
		},
		"a task is renewed and created again": func(t *testing.T, r *rivals, address string) {
			n := storetest.Plain("context")
			if _, _, err := r.other.CreateTask(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			l := r.lease(r.other, n.ID, "w")
			for range 2 {
				if _, err := r.own.Heartbeat(t.Context(), n.ID, l); err != nil {
					t.Fatal(err)
				}
			}
			together(t, r.own, address, func() { _, _ = r.own.Heartbeat(t.Context(), n.ID, l) }, func() {
				if task, replayed, err := r.own.CreateTask(t.Context(), n); err != nil || !replayed || task.Prompt == "" {
					t.Errorf("it says %+v, %v, %v", task, replayed, err)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := pgtest.Start(t)
			r := &rivals{t: t, own: open(t, address, nil), other: open(t, address, nil)}
			register(t, r.own, "w", 32)
			meet(t, r, address)
			if err := storetest.CheckInvariants(t.Context(), r.own); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDeadlinesMoveUnderHeartbeats: a heartbeat writes its lease without having
// locked the task, and must not keep those away who move all deadlines.
func TestDeadlinesMoveUnderHeartbeats(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	r := &rivals{t: t, own: open(t, address, nil)}
	register(t, r.own, "w", 4)
	_, lease := r.leased("w")
	ctx, stop := context.WithCancel(t.Context())
	var beats sync.WaitGroup
	for range 2 {
		c := connect(t, address)
		beats.Go(func() {
			_, _ = c.Exec(ctx, `DO $$ BEGIN LOOP UPDATE leases SET last_heartbeat = last_heartbeat + 1 WHERE id = '`+lease+`'; COMMIT; END LOOP; END $$`)
		})
	}
	for range 5 {
		if _, err := r.own.ShiftLeases(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	}
	stop()
	beats.Wait()
}

// TestALookUpThatIsHeldUpIsMadeAgain: who cannot find out at once what became of a
// commit must neither guess nor do it again.
func TestALookUpThatIsHeldUpIsMadeAgain(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	cut, through := startCutter(t, address)
	r := &rivals{t: t, own: open(t, through, nil)}
	task := r.created("context")
	actor := "whose connection is cut"
	cut.deliver.Store(true)
	cut.deaf.Store(&actor)
	told := make(chan error, 1)
	go func() {
		_, err := r.own.Cancel(t.Context(), task, actor)
		told <- err
	}()
	<-cut.deafened
	c := connect(t, address)
	untilOne(t, c, `SELECT EXISTS (SELECT FROM audit_logs WHERE actor = '`+actor+`')`)
	err := pgx.BeginFunc(t.Context(), c, func(lock pgx.Tx) error {
		if _, err := lock.Exec(t.Context(), `SELECT FROM counters FOR UPDATE`); err != nil {
			return err
		}
		cut.redirect(t, address)
		_, err := lock.Exec(t.Context(), `SELECT pg_sleep(1.5)`) // longer than the look-up waits for a lock
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-told; err != nil {
		t.Errorf("the cancelling that was done is refused: %v", err)
	}
}

// TestALoginMayHaveARole: a role that is set for the login may not look at the
// login's own processes.
func TestALoginMayHaveARole(t *testing.T) {
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
	r := &rivals{t: t, own: open(t, through, nil)}
	task := r.created("context")
	cut.deliver.Store(true)
	cut.deaf.Store(&task)
	told := make(chan error, 1)
	go func() {
		_, err := r.own.Cancel(t.Context(), task, "test")
		told <- err
	}()
	<-cut.deafened
	cut.redirect(t, u.String())
	if err := <-told; err != nil {
		t.Error(err)
	}
}
