package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestATaskIsRunAndReported(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	if got := h.until(task.ID, bloom.TaskRunning); got.WorkerID == nil || *got.WorkerID != "node" {
		t.Fatalf("runs on %v", got.WorkerID)
	}
	for i := range 50 {
		run.emit("text", map[string]int{"n": i})
	}
	run.end <- success("done")
	h.until(task.ID, bloom.TaskCompleted)

	results, err := h.api.Results(t.Context(), task.ID)
	if err != nil || len(results) != 1 || *results[0].Output != "done" {
		t.Fatalf("results %+v, %v", results, err)
	}
	next := 0
	started := false
	for _, e := range h.events(task.ID) {
		switch e.Type {
		case bloom.EventStarted:
			started = true
		case "text":
			if want := fmt.Sprintf(`{"n":%d}`, next); string(e.Data) != want || !started {
				t.Fatalf("event %d is %s, want %s after the start", e.Seq, e.Data, want)
			}
			next++
		}
	}
	if next != 50 {
		t.Fatalf("%d of 50 events arrived before the completion", next)
	}
}

func TestClaimsUpToItsFreeSlotsAndRefillsAtOnce(t *testing.T) {
	h := newHarness(t)
	l := h.start(func(c *worker.Config) { c.PollWait = time.Minute })
	for range 3 {
		h.rt.Submit("ctx", "do it")
	}
	first := h.runner.next(t)
	h.runner.next(t)
	if s := l.w.Status(); s.Running != 2 {
		t.Fatalf("runs %d tasks", s.Running)
	}
	select {
	case <-h.runner.runs:
		t.Fatal("a third task was begun on two slots")
	default:
	}
	first.end <- success("a")
	h.runner.next(t) // within a poll of a minute: the full worker's poll was interrupted
}

func TestACancelledTaskIsStopped(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	if _, err := h.api.Cancel(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	receive(t, run.ctx.Done(), "the run to be stopped")
	if cause := context.Cause(run.ctx); !errors.Is(cause, attempt.ErrCancelled) {
		t.Fatalf("stopped because of %v", cause)
	}
	if got := h.until(task.ID, bloom.TaskCancelled); *got.ErrorClass != bloom.ClassCancelled {
		t.Fatalf("class %q", *got.ErrorClass)
	}
}

func TestALostLeaseStopsTheWorkAndItsResultIsDiscarded(t *testing.T) {
	h := newHarness(t)
	l := h.start(func(c *worker.Config) { c.LeaseTTL = 6 * time.Second })
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	if err := h.api.RemoveWorker(t.Context(), "node"); err != nil {
		t.Fatal(err)
	}
	receive(t, run.ctx.Done(), "the run to be stopped")
	if cause := context.Cause(run.ctx); !errors.Is(cause, attempt.ErrLeaseGone) {
		t.Fatalf("stopped because of %v", cause)
	}
	// A removed worker registers again by itself and claims the task again.
	again := h.runner.next(t)
	if again.task.ID != task.ID || *again.task.LeaseID == *run.task.LeaseID {
		t.Fatalf("ran %s under %s again", again.task.ID, *again.task.LeaseID)
	}
	again.end <- success("second")
	h.until(task.ID, bloom.TaskCompleted)
	results, _ := h.api.Results(t.Context(), task.ID)
	if len(results) != 1 || *results[0].Output != "second" {
		t.Fatalf("results %+v", results)
	}
	if s := l.w.Status(); s.Lost != 1 {
		t.Fatalf("counts %d lost leases", s.Lost)
	}
}

func TestWorkStopsWhenTheLeaseCannotBeRenewed(t *testing.T) {
	h := newHarness(t)
	h.start(func(c *worker.Config) { c.LeaseTTL = 6 * time.Second })
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	began := time.Now()
	h.rt.Down()
	receive(t, run.ctx.Done(), "the run to be stopped")
	if cause := context.Cause(run.ctx); !errors.Is(cause, attempt.ErrLeaseGone) {
		t.Fatalf("stopped because of %v", cause)
	}
	if early := time.Since(began); early < 100*time.Millisecond {
		t.Fatalf("an unreachable server was taken for a lost lease after %s", early)
	}
	// The lease is still active when the server is back. The worker gets it again and
	// reports the attempt as lost instead of running it twice.
	h.rt.Up()
	h.logs.await(t, "reporting an interrupted attempt as lost: its lease was returned to this worker")
	if got := h.until(task.ID, bloom.TaskQueued); got.Attempts != 1 || *got.ErrorClass != bloom.ClassWorkerLost {
		t.Fatalf("attempts %d, class %q", got.Attempts, *got.ErrorClass)
	}
}

func TestTheServerIsReplacedInTheMiddleOfARun(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	run.emit("text", "before")
	h.rt.Down()
	run.emit("text", "between")
	h.rt.Up()
	run.emit("text", "after")
	run.end <- success("done")
	h.until(task.ID, bloom.TaskCompleted)
	var texts []string
	for _, e := range h.events(task.ID) {
		if e.Type == "text" {
			texts = append(texts, string(e.Data))
		}
	}
	if got := strings.Join(texts, " "); got != `"before" "between" "after"` {
		t.Fatalf("events: %s", got)
	}
}

func TestEventsSentTwiceAreKeptOnce(t *testing.T) {
	h := newHarness(t)
	var done atomic.Bool
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events") && done.CompareAndSwap(false, true) && unavailable(w)
	})
	h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	run.emit("text", 1)
	run.emit("text", 2)
	run.end <- success("")
	h.until(task.ID, bloom.TaskCompleted)
	n := 0
	for _, e := range h.events(task.ID) {
		if e.Type == "text" {
			n++
		}
	}
	if n != 2 {
		t.Fatalf("%d events of 2", n)
	}
}

func TestAWorkerDrainedAtTheServerTakesNothingUntilItIsUndrained(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	h.logs.await(t, "registered")
	if _, err := h.api.DrainWorker(t.Context(), "node", true); err != nil {
		t.Fatal(err)
	}
	h.logs.await(t, "drained at the server: no new tasks are taken until the worker is undrained")
	h.rt.Submit("ctx", "do it")
	if _, err := h.api.DrainWorker(t.Context(), "node", false); err != nil {
		t.Fatal(err)
	}
	h.logs.await(t, "undrained at the server")
	h.runner.next(t)
}
