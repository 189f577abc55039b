package worker_test

import (
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestARateLimitedTaskIsReleasedAndTheWorkerStopsClaiming(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	until := time.Now().Add(time.Hour)
	h.runner.next(t).end <- bloom.Run{Release: &bloom.ReleaseSpec{Reason: "rate limited", NotBefore: bloom.Millis(until)}}
	got := h.until(task.ID, bloom.TaskQueued)
	if got.Attempts != 0 || got.RunAt != bloom.Millis(until) {
		t.Fatalf("%+v", got.TaskState)
	}
	if s := l.w.Status(); s.ParkedUntil.Before(time.Now()) {
		t.Fatalf("not parked: %+v", s)
	}
	found := false
	for _, e := range h.events(task.ID) {
		found = found || e.Type == "parked"
	}
	if !found {
		t.Fatal("the task's stream does not say why it waits")
	}
}

// A reset that has passed by this machine's clock must not be a loop of starts.
func TestARateLimitWhoseResetHasPassedParksTheWorker(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	began := time.Now()
	h.runner.next(t).end <- bloom.Run{Release: &bloom.ReleaseSpec{Reason: "rate limited", NotBefore: bloom.Millis(began.Add(-time.Hour))}}
	h.until(task.ID, bloom.TaskQueued)
	if s := l.w.Status(); s.ParkedUntil.Before(began.Add(20 * time.Second)) {
		t.Fatalf("not parked: %+v", s)
	}
	if got := h.until(task.ID, bloom.TaskQueued); got.RunAt < bloom.Millis(began.Add(20*time.Second)) {
		t.Fatalf("it may start at %d, now is %d", got.RunAt, bloom.Millis(time.Now()))
	}
}

// A worker whose credentials are refused must not fail the whole queue.
func TestAWorkerWhoseCredentialsAreRefusedWaits(t *testing.T) {
	h := newHarness(t)
	l := h.start(func(c *worker.Config) { c.Capabilities.MaxConcurrency = 1 })
	refused := bloom.Run{Refused: true, Completion: bloom.Completion{
		Status: bloom.OutcomeError, ErrorClass: bloom.ClassAuth, ErrorMessage: new("claude is not logged in"),
	}}
	first, second := h.rt.Submit("one", "do it"), h.rt.Submit("two", "do it")
	began := time.Now()
	h.runner.next(t).end <- refused
	h.until(first.ID, bloom.TaskFailed)
	if until := l.w.Status().ParkedUntil; until.Before(began.Add(10*time.Second)) || until.After(time.Now().Add(time.Minute)) {
		t.Fatalf("parked until %s, now is %s", until, time.Now())
	}
	if got := h.until(second.ID, bloom.TaskQueued); got.Attempts != 0 {
		t.Fatalf("%+v", got.TaskState)
	}
}

func TestAReleaseForLaterIsBounded(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	const year58860 = 1_795_312_999_000_000 // seconds times a million, as a provider once said
	run.end <- bloom.Run{Release: &bloom.ReleaseSpec{Reason: "limit", NotBefore: year58860}}
	day := time.Now().Add(24 * time.Hour)
	if got := h.until(task.ID, bloom.TaskQueued); time.UnixMilli(got.RunAt).After(day) {
		t.Errorf("it waits until %s", time.UnixMilli(got.RunAt))
	}
	if until := l.w.Status().ParkedUntil; until.IsZero() || until.After(day) {
		t.Errorf("the worker takes nothing until %s", until)
	}
	// The server does not take such a time from other workers either.
	other := h.rt.Submit("ctx", "do it")
	if _, err := h.api.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "other", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}); err != nil {
		t.Fatal(err)
	}
	granted, err := h.api.Lease(t.Context(), other.ID, client.LeaseOptions{WorkerID: "other"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.api.Release(t.Context(), other.ID, bloom.ReleaseSpec{LeaseID: granted.Lease.ID, NotBefore: year58860})
	if err != nil || time.UnixMilli(got.RunAt).After(time.Now().Add(bloom.MaxReleaseDelay+time.Minute)) {
		t.Errorf("it waits until %s, %v", time.UnixMilli(got.RunAt), err)
	}
}
