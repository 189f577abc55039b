package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// TestALeaseThatClaimsDoNotRenewIsKept: claims are answered with the lease's old expiry,
// so the worker sends heartbeats.
func TestALeaseThatClaimsDoNotRenewIsKept(t *testing.T) {
	h := newHarness(t)
	h.start(func(c *worker.Config) { c.LeaseTTL = 9 * time.Second })
	task := h.rt.Submit("ctx", "do it")
	heartbeats := make(chan struct{}, 100)
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch stepOf(r) {
		case "heartbeat":
			heartbeats <- struct{}{}
		case "claim":
			return answerWithoutRenewal(w, r)
		}
		return false
	})
	run := h.runner.next(t)
	for range 3 { // the first begins the task
		receive(t, heartbeats, "a heartbeat")
	}
	run.end <- success("done")
	h.until(task.ID, bloom.TaskCompleted)
}

// answerWithoutRenewal answers a claim that holds leases as if none could be renewed.
func answerWithoutRenewal(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var claim struct {
		Held []string `json:"held"`
	}
	if err != nil || json.Unmarshal(body, &claim) != nil || len(claim.Held) == 0 {
		return false
	}
	res := bloom.ClaimResult{Leases: []bloom.LeasedTask{}, Lost: []string{}, Cancel: []string{}}
	for _, id := range claim.Held {
		res.Renewed = append(res.Renewed, bloom.Renewal{LeaseID: id, ExpiresAt: 1})
	}
	_ = json.NewEncoder(w).Encode(res)
	return true
}

// TestAPendingOutcomeKeepsItsLease: completions fail for a while, and the poll in flight
// lasts far longer than the lease.
func TestAPendingOutcomeKeepsItsLease(t *testing.T) {
	h := newHarness(t)
	h.start(func(c *worker.Config) { c.LeaseTTL, c.PollWait = 9*time.Second, time.Minute })
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	heartbeats, refused := make(chan struct{}, 1000), make(chan struct{}, 1000)
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch stepOf(r) {
		case "heartbeat":
			heartbeats <- struct{}{}
		case "complete":
			refused <- struct{}{}
			return unavailable(w)
		}
		return false
	})
	run.end <- success("kept")
	receive(t, refused, "a completion")
	h.logs.await(t, "an outcome could not be delivered; it is kept and retried")
	for range cap(heartbeats) { // those of the run
		select {
		case <-heartbeats:
		default:
		}
	}
	for range 3 {
		receive(t, heartbeats, "a heartbeat")
	}
	if got, err := h.api.Task(t.Context(), task.ID); err != nil || got.Status != bloom.TaskRunning {
		t.Errorf("the task is %s, %v", got.Status, err)
	}
	h.rt.Intercept(nil)
	h.until(task.ID, bloom.TaskCompleted)
}

// lateRunner goes on after its context has ended.
type lateRunner struct{ *fakeRunner }

func (l lateRunner) Run(ctx context.Context, task bloom.Task, emit func(string, any)) attempt.Run {
	return l.fakeRunner.Run(context.WithoutCancel(ctx), task, emit)
}

// TestASuccessWhoseLeaseExpiredIsTaken: during an outage the lease ends on both sides. The worker
// learns that it is lost before its run has ended, and nobody else has the task.
func TestASuccessWhoseLeaseExpiredIsTaken(t *testing.T) {
	h := newHarness(t)
	h.start(func(c *worker.Config) { c.LeaseTTL, c.Runner = time.Second, lateRunner{h.runner} })
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	if _, err := h.api.DrainWorker(t.Context(), "node", true); err != nil {
		t.Fatal(err)
	}
	h.logs.await(t, "drained at the server: no new tasks are taken until the worker is undrained")
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool { return stepOf(r) != "" && unavailable(w) })
	h.logs.await(t, "the lease ran out before it could be renewed; stopping the work, because another worker may have the task")
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got, err := h.rt.Store.Reap(t.Context(), 1)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the task is not requeued: %v", err)
		}
		if got.Requeued > 0 {
			break
		}
	}
	claims := h.claims()
	for range 2 { // the answer to the first one reports the lease lost
		receive(t, claims, "a claim")
	}
	run.end <- success("done")
	h.until(task.ID, bloom.TaskCompleted)
}
