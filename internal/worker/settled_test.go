package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// acceptance records the calls of Config.Accepted.
type acceptance struct {
	calls chan [2]string // context and lease
	err   chan error     // what the next calls return; nil when it is empty
}

func newAcceptance() *acceptance {
	return &acceptance{calls: make(chan [2]string, 64), err: make(chan error, 64)}
}

func (a *acceptance) use(c *worker.Config) {
	c.Accepted = func(contextID, leaseID string) error {
		a.calls <- [2]string{contextID, leaseID}
		select {
		case err := <-a.err:
			return err
		default:
			return nil
		}
	}
}

func TestTheRunnerLearnsThatAnOutcomeWasAccepted(t *testing.T) {
	h, a := newHarness(t), newAcceptance()
	l := h.start(a.use)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	lease := *run.task.LeaseID
	h.rt.Down()
	run.end <- success("kept")
	h.logs.await(t, "an outcome could not be delivered; it is kept and retried")
	short, cancel := context.WithCancelCause(t.Context())
	cancel(attempt.ErrCancelled)
	if err := l.w.AwaitOutcome(short, lease); !errors.Is(err, attempt.ErrCancelled) {
		t.Errorf("an undelivered outcome is settled: %v", err)
	}
	l.w.Stop()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	if n := len(a.calls); n != 0 {
		t.Fatalf("accepted %d times before it was delivered", n)
	}
	a.err <- errors.New("the disk is full") // then it is accepted again, and not delivered
	h.rt.Up()
	sent := make(chan string, 64)
	h.rt.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if stepOf(r) == "complete" {
			sent <- r.URL.Path
		}
		return false
	})
	l = h.start(a.use)
	for range 2 {
		if got := receive(t, a.calls, "the acceptance"); got != [2]string{"ctx", lease} {
			t.Errorf("accepted %v", got)
		}
	}
	if err := l.w.AwaitOutcome(t.Context(), lease); err != nil {
		t.Error(err)
	}
	if left := outbox(t, h.dir); len(left) > 0 {
		t.Errorf("the outbox still has %q", left)
	}
	if results, _ := h.api.Results(t.Context(), task.ID); len(results) != 1 || len(sent) != 1 {
		t.Errorf("sent %d times, results %+v", len(sent), results)
	}
}

// AwaitOutcome also waits between the end of a run and its delivery, and ends when the
// outcome was refused or is not to be delivered.
func TestAnOutcomeThatIsNotAcceptedIsSettled(t *testing.T) {
	h, a := newHarness(t), newAcceptance()
	l := h.start(a.use)
	refused := h.rt.Submit("one", "do it")
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if stepOf(r) != "complete" {
			return false
		}
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "no", "code": bloom.CodeLeaseLost, "request_id": "1"})
		return true
	})
	run := h.runner.next(t)
	settled := make(chan error, 1)
	go func() { settled <- l.w.AwaitOutcome(t.Context(), *run.task.LeaseID) }()
	run.end <- success("precious")
	if err := receive(t, settled, "the refusal"); err != nil || refused.ID != run.task.ID {
		t.Error(err)
	}
	h.rt.Intercept(nil)
	released := h.rt.Submit("two", "do it")
	for run.task.ID != released.ID { // the first task's lease is still the worker's
		run = h.runner.next(t)
	}
	go func() { settled <- l.w.AwaitOutcome(t.Context(), *run.task.LeaseID) }()
	run.end <- attempt.Run{Release: &bloom.ReleaseSpec{Reason: "not now"}}
	if err := receive(t, settled, "the release"); err != nil {
		t.Error(err)
	}
	if n := len(a.calls); n != 0 {
		t.Errorf("%d outcomes were accepted", n)
	}
}

// The report that an attempt was interrupted is not the outcome of its run.
func TestAnInterruptedAttemptIsNotAccepted(t *testing.T) {
	h, a := newHarness(t), newAcceptance()
	h.start(func(c *worker.Config) { a.use(c); c.LeaseTTL = 3 * time.Second })
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	h.rt.Down()
	receive(t, run.ctx.Done(), "the run to be stopped")
	h.rt.Up()
	h.logs.await(t, "reporting an interrupted attempt as lost: its lease was returned to this worker")
	h.until(task.ID, bloom.TaskQueued)
	if n := len(a.calls); n != 0 {
		t.Errorf("%d outcomes were accepted", n)
	}
}
