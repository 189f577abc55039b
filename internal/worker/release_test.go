package worker_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/timing"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestARateLimitedTaskIsReleasedAndTheWorkerStopsClaiming(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	until := time.Now().Add(time.Hour)
	h.runner.next(t).end <- attempt.Run{Release: &bloom.ReleaseSpec{Reason: "rate limited", NotBefore: timing.Millis(until)}}
	got := h.until(task.ID, bloom.TaskQueued)
	if got.Attempts != 0 || got.RunAt != timing.Millis(until) {
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
	h.runner.next(t).end <- attempt.Run{Release: &bloom.ReleaseSpec{Reason: "rate limited", NotBefore: timing.Millis(began.Add(-time.Hour))}}
	h.until(task.ID, bloom.TaskQueued)
	if s := l.w.Status(); s.ParkedUntil.Before(began.Add(20 * time.Second)) {
		t.Fatalf("not parked: %+v", s)
	}
	if got := h.until(task.ID, bloom.TaskQueued); got.RunAt < timing.Millis(began.Add(20*time.Second)) {
		t.Fatalf("it may start at %d, now is %d", got.RunAt, timing.Millis(time.Now()))
	}
}

// refused returns a run that is released because the credentials were refused.
func refused() attempt.Run {
	const reason = "claude is not logged in"
	return attempt.Run{Refused: true, Release: &bloom.ReleaseSpec{Reason: reason}, Completion: bloom.Completion{
		Status: bloom.OutcomeError, ErrorClass: bloom.ClassAuth, ErrorMessage: new(reason),
	}}
}

// A worker whose credentials are refused must not fail the whole queue, and its tasks say why they
// wait.
func TestAWorkerWhoseCredentialsAreRefusedWaits(t *testing.T) {
	h := newHarness(t)
	l := h.start(func(c *worker.Config) { c.Capabilities.MaxConcurrency = 1 })
	first, second := h.rt.Submit("one", "do it"), h.rt.Submit("two", "do it")
	began := time.Now()
	h.runner.next(t).end <- refused()
	if got := h.until(first.ID, bloom.TaskQueued); got.Attempts != 0 {
		t.Fatalf("%+v", got.TaskState)
	}
	if until := l.w.Status().ParkedUntil; until.Before(began.Add(10*time.Second)) || until.After(time.Now().Add(time.Minute)) {
		t.Fatalf("parked until %s, now is %s", until, time.Now())
	}
	for _, id := range []string{first.ID, second.ID} {
		var got bloom.Task
		for got.WaitingFor == nil || got.WaitingFor.Reason != problems.WaitPaused {
			var err error
			if got, err = h.api.Task(t.Context(), id); err != nil || got.Attempts != 0 {
				t.Fatalf("%+v, %v", got.TaskState, err)
			}
		}
		if !strings.HasSuffix(got.WaitingFor.Sentence, ": claude is not logged in") {
			t.Errorf("it waits for %+v", got.WaitingFor)
		}
	}
}

// A limit without an end, as API keys have it, costs no attempt either.
func TestALimitWithoutAnEndPausesTheWorker(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	h.runner.next(t).end <- attempt.Run{Refused: true, Release: &bloom.ReleaseSpec{Reason: "slow down"},
		Completion: bloom.Completion{Status: bloom.OutcomeError, ErrorClass: bloom.ClassRateLimited}}
	if got := h.until(task.ID, bloom.TaskQueued); got.Attempts != 0 || l.w.Status().ParkedUntil.IsZero() {
		t.Errorf("%+v, parked until %s", got.TaskState, l.w.Status().ParkedUntil)
	}
}

// A runner that says nothing else about a refusal must not end the process.
func TestARefusalWithoutAMessageParksTheWorker(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	h.runner.next(t).end <- attempt.Run{Refused: true}
	h.until(task.ID, bloom.TaskFailed)
	if l.w.Status().ParkedUntil.IsZero() {
		t.Error("not parked")
	}
}

// leap is a clock that can be put forward.
type leap struct{ by atomic.Int64 }

func (l *leap) Now() time.Time { return time.Now().Add(time.Duration(l.by.Load())) }

// A task that is refused whenever it runs keeps neither the others from running nor the worker from
// working: another task is tried first, and its success shows whose fault the refusals are.
func TestATaskThatIsAlwaysRefusedDoesNotKeepTheOthersWaiting(t *testing.T) {
	h, clock := newHarness(t), &leap{}
	h.start(func(c *worker.Config) { c.Capabilities.MaxConcurrency, c.Clock = 1, clock })
	bad, good := h.rt.Submit("bad", "do it"), h.rt.Submit("good", "do it")
	for range 2 {
		run := h.runner.next(t)
		if run.task.ID != bad.ID {
			t.Fatalf("task %s began, want the oldest", run.task.ID)
		}
		run.end <- refused()
		h.until(bad.ID, bloom.TaskQueued)
		clock.by.Add(int64(time.Minute))
	}
	run := h.runner.next(t)
	if run.task.ID != good.ID {
		t.Fatal("the task that was refused twice is tried once more before the other")
	}
	run.end <- success("done")
	h.until(good.ID, bloom.TaskCompleted)
}

// A limit may be of the task's model, so nine refusals of one task alone are free.
func TestARefusalOfOneTaskAloneCostsNoAttemptAtFirst(t *testing.T) {
	h, clock := newHarness(t), &leap{}
	clock.by.Store(-int64(24 * time.Hour)) // so that the task is not waited for
	l := h.start(func(c *worker.Config) { c.Capabilities.MaxConcurrency, c.Clock = 2, clock })
	succeed := func() {
		good := h.rt.Submit("good", "do it")
		h.runner.next(t).end <- success("done")
		h.until(good.ID, bloom.TaskCompleted)
	}
	bad := h.rt.Submit("bad", "do it")
	run := h.runner.next(t)
	for refusals := range 11 {
		if refusals > 0 {
			run.emit(bloom.EventUsage, nil) // so that the worker takes another task beside it
			succeed()
		}
		run.end <- refused()
		if refusals == 0 {
			h.logs.await(t, "not claiming tasks for a while")
			clock.by.Add(int64(time.Minute))
		}
		run = h.runner.next(t)
		if free := run.task.Attempts - 1; run.task.ID != bad.ID || (free == 0) != (refusals < 10) {
			t.Fatalf("after %d refusals the task has used %d attempts", refusals+1, free)
		}
		if refusals > 0 && l.w.Status().ParkedUntil.After(clock.Now()) {
			t.Fatal("the worker is parked because of one task")
		}
		if refusals > 0 && refusals < 10 && run.task.RunAt < timing.Millis(clock.Now()) {
			t.Errorf("refusal %d: the task does not wait", refusals+1)
		}
	}
}

// After a refusal the worker takes one task, and more only when that has succeeded.
func TestARefusedWorkerTriesOneTask(t *testing.T) {
	h, clock := newHarness(t), &leap{}
	h.start(func(c *worker.Config) { c.Capabilities.MaxConcurrency, c.Clock = 4, clock })
	h.rt.Submit("long", "do it")
	h.runner.next(t) // one that runs on does not count
	h.rt.Submit("one", "do it")
	h.runner.next(t).end <- refused()
	h.logs.await(t, "not claiming tasks for a while")
	for range 3 {
		h.rt.Submit("two", "do it")
	}
	clock.by.Store(int64(time.Minute))
	probe := h.runner.next(t)
	asked := h.claims()
	if n := receive(t, asked, "a claim"); n != 0 {
		t.Errorf("it asks for %d more tasks", n)
	}
	probe.end <- success("done")
	h.runner.next(t)
	h.runner.next(t)
}

func TestATaskWhoseContextIsNotReadyDoesNotParkTheWorker(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	later := timing.Millis(time.Now().Add(time.Minute))
	h.runner.next(t).end <- attempt.Run{Release: &bloom.ReleaseSpec{Reason: "not ready", NotBefore: later},
		Completion: bloom.Completion{Status: bloom.OutcomeError, ErrorClass: bloom.ClassInternal}}
	if got := h.until(task.ID, bloom.TaskQueued); got.RunAt < later || got.Attempts != 0 {
		t.Errorf("it starts at %d, after %d attempts", got.RunAt, got.Attempts)
	}
	if until := l.w.Status().ParkedUntil; !until.IsZero() {
		t.Errorf("the worker takes nothing until %s", until)
	}
}

// claims returns how many tasks each claim asks for from now on.
func (h *harness) claims() <-chan int {
	asked := make(chan int, 1000)
	h.rt.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if stepOf(r) == "claim" {
			asked <- maxOf(r)
		}
		return false
	})
	return asked
}

// maxOf returns how many tasks a claim asks for.
func maxOf(r *http.Request) int {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var claim struct {
		Max int `json:"max"`
	}
	_ = json.Unmarshal(body, &claim)
	return claim.Max
}

func TestAReleaseForLaterIsBounded(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	const year58860 = 1_795_312_999_000_000 // seconds times a million, as a provider once sent
	run.end <- attempt.Run{Release: &bloom.ReleaseSpec{Reason: "limit", NotBefore: year58860}}
	day := time.Now().Add(24 * time.Hour)
	if got := h.until(task.ID, bloom.TaskQueued); time.UnixMilli(got.RunAt).After(day) {
		t.Errorf("it waits until %s", time.UnixMilli(got.RunAt))
	}
	if until := l.w.Status().ParkedUntil; until.IsZero() || until.After(day) {
		t.Errorf("the worker takes nothing until %s", until)
	}
	// The server does not accept such a time from other workers either.
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

// Credentials may be refused in the middle of a run, too: that must not fail the queue either.
func TestARefusalAfterTheModelsAnswerMeansALongerWait(t *testing.T) {
	h, clock := newHarness(t), &leap{}
	l := h.start(func(c *worker.Config) { c.Capabilities.MaxConcurrency, c.Clock = 1, clock })
	for i, least := range []time.Duration{10 * time.Second, 25 * time.Second, 50 * time.Second} {
		task := h.rt.Submit(fmt.Sprint("task ", i), "do it")
		run, began := h.runner.next(t), clock.Now()
		run.emit(bloom.EventUsage, nil)
		again := refused()
		again.Release = nil
		run.end <- again
		h.until(task.ID, bloom.TaskFailed)
		if until := l.w.Status().ParkedUntil; until.Before(began.Add(least)) {
			t.Fatalf("refusal %d: parked for %s", i+1, until.Sub(began))
		}
		clock.by.Add(int64(2 * time.Minute))
	}
}

// A model that answers a run has accepted the credentials, however long the run takes.
func TestARefusedWorkerTakesMoreWhenTheModelAnswers(t *testing.T) {
	h, clock := newHarness(t), &leap{}
	h.start(func(c *worker.Config) { c.Capabilities.MaxConcurrency, c.Clock = 3, clock })
	h.rt.Submit("long", "do it")
	before := h.runner.next(t)
	h.rt.Submit("one", "do it")
	h.runner.next(t).end <- refused()
	h.logs.await(t, "not claiming tasks for a while")
	for range 2 {
		h.rt.Submit("two", "do it")
	}
	clock.by.Store(int64(time.Minute))
	probe := h.runner.next(t)
	asked := h.claims()
	before.emit(bloom.EventUsage, nil) // it began before the refusal
	if n := receive(t, asked, "a claim"); n != 0 {
		t.Errorf("it asks for %d more tasks", n)
	}
	probe.emit(bloom.EventUsage, nil)
	h.runner.next(t)
}
