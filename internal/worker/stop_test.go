package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/timing"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestStopLetsRunningTasksEnd(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	l.cancel()
	h.logs.await(t, "stopping: no new tasks are taken")
	late := h.rt.Submit("ctx", "too late")
	run.end <- success("done")
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	h.until(task.ID, bloom.TaskCompleted)
	if got := h.until(late.ID, bloom.TaskQueued); got.Attempts != 0 {
		t.Fatalf("a draining worker took a task: %+v", got.TaskState)
	}
}

func TestStopReleasesTasksThatOutlastTheGrace(t *testing.T) {
	h := newHarness(t)
	l := h.start(func(c *worker.Config) { c.Grace = -1 })
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	l.w.Stop()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(run.ctx); !errors.Is(cause, attempt.ErrDraining) {
		t.Fatalf("stopped because of %v", cause)
	}
	if got := h.until(task.ID, bloom.TaskQueued); got.Attempts != 0 || got.RunAt > timing.Millis(time.Now()) {
		t.Fatalf("the attempt was not refunded: %+v", got.TaskState)
	}
}

func TestStopNowEndsTheGrace(t *testing.T) {
	h := newHarness(t)
	l := h.start(func(c *worker.Config) { c.Grace = time.Hour })
	h.rt.Submit("ctx", "do it")
	h.runner.next(t)
	l.w.Stop()
	h.logs.await(t, "stopping: no new tasks are taken")
	l.w.StopNow()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
}
