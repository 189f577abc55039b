package worker_test

import (
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
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
