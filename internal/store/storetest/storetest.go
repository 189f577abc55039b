// Package storetest is the conformance suite that every contract.Store must pass. It uses only
// the Store interface, so that stores which pass are interchangeable.
package storetest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Open opens an empty store that uses the clock; the test's Cleanup closes it. A store with
// its own time (a database server's) ignores the clock and implements Timed.
type Open func(t *testing.T, clock timing.Clock) contract.Store

// Run tests a store with every test and as many random histories, and checks the invariants after
// each.
func Run(t *testing.T, histories int, open Open) {
	groups := []struct {
		name  string
		tests map[string]func(*harness)
	}{
		{"tasks", taskTests}, {"leases", leaseTests}, {"completions", completionTests}, {"claims", claimTests},
		{"queue", queueTests}, {"order", orderTests}, {"workers", workerTests}, {"reported workers", reportedWorkerTests}, {"records", recordTests},
		{"contexts", contextTests}, {"moved contexts", movedContextTests}, {"series", seriesTests}, {"lists", listTests},
		{"races", raceTests}, {"text", textTests}, {"limits", limitTests}, {"bad rows", badRowTests},
		{"retention", retentionTests}, {"retention of events", eventRetentionTests}, {"retention races", retentionRaceTests}, {"retention of contexts", contextRetentionTests},
		{"access", accessTests}, {"schedules", scheduleTests}, {"approvals", approvalTests}, {"search", searchTests}, {"files", fileTests}, {"chain", chainTests},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for name, test := range g.tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					h := newHarness(t, open)
					test(h)
					if !t.Failed() {
						h.ok(CheckInvariants(h.ctx, h.s))
					}
				})
			}
		})
	}
	t.Run("model", func(t *testing.T) {
		t.Parallel()
		for part := range histories / 10 {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				runModel(t, open)
			})
		}
	})
}

// harness is a store under test with shortcuts for its operations.
type harness struct {
	*testing.T
	ctx   context.Context
	s     contract.Store
	clock *Clock
}

func newHarness(t *testing.T, open Open) *harness {
	clock := NewClock()
	return &harness{T: t, ctx: t.Context(), s: open(t, clock), clock: clock}
}

func (h *harness) advance(d time.Duration) {
	if own, ok := h.s.(Timed); ok {
		own.Advance(d)
		return
	}
	h.clock.Advance(d)
}

func (h *harness) now() int64 {
	if own, ok := h.s.(Timed); ok {
		return timing.Millis(own.Now())
	}
	return timing.Millis(h.clock.Now())
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) create(change ...func(*contract.NewTask)) bloom.Task {
	h.Helper()
	task, replayed, err := h.s.CreateTask(h.ctx, newTask(change...))
	h.ok(err)
	if replayed {
		h.Fatal("a new task was answered as a replay")
	}
	return task
}

func (h *harness) task(id string) bloom.Task {
	h.Helper()
	task, err := h.s.Task(h.ctx, id)
	h.ok(err)
	return task
}

func (h *harness) worker(name string, slots int, labels ...string) bloom.Worker {
	h.Helper()
	w, _, err := h.s.RegisterWorker(h.ctx, bloom.WorkerSpec{
		Name: name, InstanceID: name + "-1", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: slots, Labels: labels},
	}, name)
	h.ok(err)
	return w
}

func (h *harness) lease(taskID, workerID string) bloom.Lease {
	h.Helper()
	l, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: taskID, WorkerID: workerID, TTLSec: 60, Actor: "client"})
	h.ok(err)
	return l
}

func (h *harness) heartbeat(l bloom.Lease) bloom.HeartbeatResult {
	h.Helper()
	r, err := h.s.Heartbeat(h.ctx, l.TaskID, l.ID, nil)
	h.ok(err)
	return r
}

// claim claims up to most new tasks, and renews the held leases.
func (h *harness) claim(worker string, most int, held ...string) bloom.ClaimResult {
	h.Helper()
	r, err := h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: worker, InstanceID: worker + "-1", Max: most, TTLSec: 60, Held: held, Renew: true})
	h.ok(err)
	return r
}

func (h *harness) complete(r contract.CompleteRequest) bloom.Completed {
	h.Helper()
	input.Normalize(&r.Completion)
	c, err := h.s.Complete(h.ctx, r)
	h.ok(err)
	return c
}

// finish leases a task to the worker and completes it.
func (h *harness) finish(taskID, worker string) bloom.Completed {
	h.Helper()
	l := h.lease(taskID, worker)
	return h.complete(success(taskID, l.ID, "done"))
}

func (h *harness) status(taskID string, want bloom.TaskStatus) bloom.Task {
	h.Helper()
	task := h.task(taskID)
	if task.Status != want {
		h.Fatalf("task is %s, want %s", task.Status, want)
	}
	return task
}

// exceptStart leaves out what only reads of a task have.
var exceptStart = cmpopts.IgnoreFields(bloom.Task{}, "StartedAt")

func same[T comparable](h *harness, what string, got, want T) {
	h.Helper()
	if got != want {
		h.Errorf("%s is %v, want %v", what, got, want)
	}
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// actions lists a task's audit actions, the oldest first.
func (h *harness) actions(entityID string) (actions []string) {
	h.Helper()
	entries, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{EntityID: entityID, Page: bloom.Page{Limit: bloom.MaxPageSize}})
	h.ok(err)
	for i := len(entries) - 1; i >= 0; i-- {
		actions = append(actions, entries[i].Action)
	}
	return actions
}

func (h *harness) eventTypes(taskID string) (types []string) {
	h.Helper()
	events, err := h.s.Events(h.ctx, taskID, 0, bloom.MaxPageSize)
	h.ok(err)
	for i, e := range events {
		same(h, "the stream's number", e.Seq, int64(i+1))
		types = append(types, e.Type)
	}
	return types
}

func (h *harness) reap(want contract.Reaped) {
	h.Helper()
	got, err := h.s.Reap(h.ctx, 1000)
	h.ok(err)
	same(h, "reaped", got, want)
}

// refused checks an error's kind and code. Errors of missing objects differ only in their
// message.
func (h *harness) refused(err error, want *bloom.Error) {
	h.Helper()
	e := asError(err)
	if e == nil || e.Kind != want.Kind || e.Code != want.Code || e.Kind == bloom.KindNotFound && e.Message != want.Message {
		h.Fatalf("got %v, want %v", err, want)
	}
}
