package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// orphans are queries that must find nothing.
var orphans = []string{
	`SELECT count(*) FROM task_events WHERE task NOT IN (SELECT seq FROM llm_tasks)`,
	`SELECT count(*) FROM leases WHERE task_id NOT IN (SELECT id FROM llm_tasks)`,
	`SELECT count(*) FROM llm_results WHERE task_id NOT IN (SELECT id FROM llm_tasks)`,
	`SELECT count(*) FROM runtime_artifacts WHERE task_id NOT IN (SELECT id FROM llm_tasks)`,
	`SELECT count(*) FROM llm_results WHERE artifact_id NOT IN (SELECT id FROM runtime_artifacts)`,
}

// TestTwoReplicasRemoveConcurrently should not happen, and must be harmless when one loses its lock
// during a run.
func TestTwoReplicasRemoveConcurrently(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	past := open(t, url, storetest.NewClock())
	register(t, past, "w", 32)
	for i := range 60 {
		n := storetest.Plain(fmt.Sprint("context-", i))
		_, _, err := past.CreateTask(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		l, _, err := past.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: n.ID})
		if err == nil && i%6 != 0 {
			_, err = past.Complete(t.Context(), storetest.Success(n.ID, l.ID))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := postgres.Old(t.Context(), url, contract.Keep{Tasks: time.Hour})
	if err != nil || want.Tasks != 50 {
		t.Fatalf("%+v are old, %v", want, err)
	}
	var mu sync.Mutex
	var did contract.Removed
	var all sync.WaitGroup
	for range 2 {
		s := open(t, url, nil)
		all.Go(func() {
			r := contract.RemoveRequest{OlderThan: time.Hour, Limit: 4}
			for more := true; more; {
				one, err := s.RemoveTasks(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				r.After, more = one.Next, one.More
				mu.Lock()
				did.Add(one)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if did.Next, did.More = 0, false; did != want {
		t.Errorf("together they removed %+v of %+v", did, want)
	}
	if err := storetest.CheckInvariants(t.Context(), past); err != nil {
		t.Error(err)
	}
	c := connect(t, url)
	for _, q := range orphans {
		var n int
		if err := c.QueryRow(t.Context(), q).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows, %v: %s", n, err, q)
		}
	}
}

// TestARequeueDuringARemovalWins requeues a task while the removal that found it waits for the
// table: an EXCLUSIVE lock allows plain reads but no row locks.
func TestARequeueDuringARemovalWins(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	past, s := open(t, url, storetest.NewClock()), open(t, url, nil)
	var ids []string
	for range 2 {
		task, _, err := past.CreateTask(t.Context(), storetest.Plain("c"))
		if err == nil {
			_, err = past.Cancel(t.Context(), task.ID, "me")
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, task.ID)
	}
	holder, watcher := connect(t, url), connect(t, url)
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := holder.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`BEGIN`)
	exec(`LOCK TABLE llm_tasks IN EXCLUSIVE MODE`)
	removed := make(chan error, 1)
	go func() {
		_, err := s.RemoveTasks(t.Context(), contract.RemoveRequest{OlderThan: time.Hour})
		removed <- err
	}()
	for waits := false; !waits; {
		if err := watcher.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'llm_tasks'::regclass)`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	exec(`UPDATE llm_tasks SET status = 'queued', gate = 'open' WHERE id = $1`, ids[0])
	exec(`COMMIT`)
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	if task, err := s.Task(t.Context(), ids[0]); err != nil || task.Status != bloom.TaskQueued {
		t.Errorf("the requeued task is %q: %v", task.Status, err)
	}
	if _, err := s.Task(t.Context(), ids[1]); !errors.Is(err, bloom.ErrTaskNotFound) {
		t.Errorf("the other one: %v", err)
	}
}
