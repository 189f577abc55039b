package sqlite_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestARequeueDuringARemovalWins requeues a task while the removal that found it waits for the
// writer.
func TestARequeueDuringARemovalWins(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	path := filepath.Join(t.TempDir(), "bloom.db")
	s := openAt(t, path, clock)
	ctx := t.Context()
	var ids []string
	for range 2 {
		task, _, err := s.CreateTask(ctx, storetest.Plain("c"))
		if err == nil {
			_, err = s.Cancel(ctx, task.ID, "me")
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, task.ID)
	}
	clock.Advance(24 * time.Hour)
	writing, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	stop := s.Subscribe(func([]bloom.Change) { // the writer waits for its subscribers
		once.Do(func() { close(writing); <-release })
	})
	defer stop()
	var all sync.WaitGroup
	all.Go(func() {
		if _, _, err := s.CreateTask(ctx, storetest.Plain("c")); err != nil {
			t.Error(err)
		}
	})
	<-writing
	waits := func(fn func() error) {
		before := s.Queued()
		all.Go(func() {
			if err := fn(); err != nil {
				t.Error(err)
			}
		})
		for s.Queued() == before {
			runtime.Gosched()
		}
	}
	waits(func() error { _, err := s.Requeue(ctx, ids[0], "me"); return err })
	waits(func() error { _, err := s.RemoveTasks(ctx, contract.RemoveRequest{OlderThan: time.Hour}); return err })
	close(release)
	all.Wait()
	if task, err := s.Task(ctx, ids[0]); err != nil || task.Status != bloom.TaskQueued {
		t.Errorf("the requeued task is %q: %v", task.Status, err)
	}
	if _, err := s.Task(ctx, ids[1]); !errors.Is(err, bloom.ErrTaskNotFound) {
		t.Errorf("the other one: %v", err)
	}
	if err := storetest.CheckInvariants(ctx, s); err != nil {
		t.Error(err)
	}
}
