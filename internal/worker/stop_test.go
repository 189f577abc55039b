package worker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
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

// The answers to claims have a size: a worker that stops fetches all that it was leased and never got.
func TestStopReleasesTasksThatNeverArrived(t *testing.T) {
	h := newHarness(t)
	polls := make(chan struct{}, 1)
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if stepOf(r) != "claim" {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		if r.Body = io.NopCloser(bytes.NewReader(body)); bytes.Contains(body, []byte(`"wait_sec":0,`)) {
			return false // the last claim
		}
		select {
		case polls <- struct{}{}:
		default:
		}
		return unavailable(w)
	})
	l := h.start(func(c *worker.Config) { c.Capabilities.MaxConcurrency, c.DeliverWait = 4, patience })
	receive(t, polls, "a poll")
	var ids []string
	for range 4 {
		task := h.rt.Submit("ctx", strings.Repeat("p", 3<<20))
		if _, err := h.api.Lease(t.Context(), task.ID, client.LeaseOptions{WorkerID: "node"}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, task.ID)
	}
	l.w.Stop()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got, err := h.api.Task(t.Context(), id); err != nil || got.Status != bloom.TaskQueued {
			t.Errorf("the task is %s: %v", got.Status, err)
		}
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
