package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestAWorkerThatCannotRunTasksLeavesThemToOthers(t *testing.T) {
	b := newBench(t)
	var broken atomic.Bool
	broken.Store(true)
	b.start(func(c *worker.Config) {
		c.Ready = func(context.Context) error {
			if broken.Load() {
				return errors.New("no claude")
			}
			return nil
		}
	})
	b.logs.await(t, "registered")
	if w, _, err := b.rt.Store.Worker(t.Context(), "node"); err != nil || w.Capabilities.ClaudeCLI {
		t.Fatalf("it says that it runs claude: %t, %v", w.Capabilities.ClaudeCLI, err)
	}
	task := b.rt.Submit("ctx", "do it")
	if _, _, err := b.rt.Store.LeaseTask(t.Context(), bloom.LeaseRequest{TaskID: task.ID}); !errors.Is(err, bloom.ErrNoWorker) {
		t.Fatalf("it was picked for a task: %v", err)
	}
	if waiting := b.until(task.ID, bloom.TaskQueued); waiting.Attempts != 0 {
		t.Errorf("the task used up %d attempts", waiting.Attempts)
	}
	broken.Store(false)
	b.logs.await(t, "claiming tasks again: claude is available")
	b.runner.next(t).end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)
}
