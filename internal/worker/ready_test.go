package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestAWorkerThatCannotRunTasksLeavesThemToOthers(t *testing.T) {
	h := newHarness(t)
	var broken atomic.Bool
	broken.Store(true)
	h.start(func(c *worker.Config) {
		c.Ready = func(context.Context) error {
			if broken.Load() {
				return errors.New("no claude")
			}
			return nil
		}
	})
	h.logs.await(t, "registered")
	if w, _, err := h.rt.Store.Worker(t.Context(), "node"); err != nil || w.Capabilities.ClaudeCLI {
		t.Fatalf("it says that it runs claude: %t, %v", w.Capabilities.ClaudeCLI, err)
	}
	task := h.rt.Submit("ctx", "do it")
	if _, _, err := h.rt.Store.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: task.ID}); !errors.Is(err, bloom.ErrNoWorker) {
		t.Fatalf("it was picked for a task: %v", err)
	}
	if waiting := h.until(task.ID, bloom.TaskQueued); waiting.Attempts != 0 {
		t.Errorf("the task used up %d attempts", waiting.Attempts)
	}
	broken.Store(false)
	h.logs.await(t, "claiming tasks again: claude is available")
	h.runner.next(t).end <- success("done")
	h.until(task.ID, bloom.TaskCompleted)
}
