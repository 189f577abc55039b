package worker_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// TestALeaseThatClaimsDoNotRenewIsKept: a claim's answer names a lease with the time
// that it had before. The worker sends heartbeats for it.
func TestALeaseThatClaimsDoNotRenewIsKept(t *testing.T) {
	b := newBench(t)
	b.start(func(c *worker.Config) { c.LeaseTTL = 3 * time.Second })
	task := b.rt.Submit("ctx", "do it")
	heartbeats := make(chan struct{}, 100)
	b.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch stepOf(r) {
		case "heartbeat":
			heartbeats <- struct{}{}
		case "claim":
			return standStill(w, r)
		}
		return false
	})
	run := b.runner.next(t)
	for range 3 { // the first begins the task
		receive(t, heartbeats, "a heartbeat")
	}
	run.end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)
}

// standStill answers a claim that names leases as if none could be renewed.
func standStill(w http.ResponseWriter, r *http.Request) bool {
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

// TestAnOutcomeThatWaitsKeepsItsLease: its completion is not taken for a while, and the
// poll that is under way lasts far longer than the lease.
func TestAnOutcomeThatWaitsKeepsItsLease(t *testing.T) {
	b := newBench(t)
	b.start(func(c *worker.Config) { c.LeaseTTL, c.PollWait = 3*time.Second, time.Minute })
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	heartbeats, refused := make(chan struct{}, 1000), make(chan struct{}, 1000)
	b.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch stepOf(r) {
		case "heartbeat":
			heartbeats <- struct{}{}
		case "complete":
			refused <- struct{}{}
			return answerOnce(w)
		}
		return false
	})
	run.end <- success("kept")
	receive(t, refused, "a completion")
	b.logs.await(t, "an outcome could not be delivered yet; it is kept and tried again")
	for range cap(heartbeats) { // those of the run
		select {
		case <-heartbeats:
		default:
		}
	}
	for range 3 {
		receive(t, heartbeats, "a heartbeat")
	}
	if got, err := b.api.Task(t.Context(), task.ID); err != nil || got.Status != bloom.TaskRunning {
		t.Errorf("the task is %s, %v", got.Status, err)
	}
	b.rt.Intercept(nil)
	b.until(task.ID, bloom.TaskCompleted)
}
