package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	_ "modernc.org/sqlite" // the driver

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// earlierStore is a store with data of an earlier version, its tasks by their context, those with
// an order key by their prompt.
type earlierStore struct {
	*testing.T
	s     contract.Store
	tasks map[string]bloom.Task
	held  []string
}

func (e *earlierStore) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// fill assigns the tasks to their contexts.
func (e *earlierStore) fill() {
	if list, _, err := e.s.Contexts(e.Context(), bloom.ContextQuery{}); err != nil || len(list) != 0 {
		e.Errorf("contexts before they are filled: %+v, %v", list, err)
	}
	for more := true; more; {
		var err error
		more, err = e.s.FillContexts(e.Context())
		e.ok(err)
	}
}

// search finds tasks that are older than the index.
func (e *earlierStore) search() {
	find := func() (contexts []string) {
		found, _, err := e.s.Tasks(e.Context(), bloom.TaskQuery{Text: "do cancelled"})
		e.ok(err)
		for _, t := range found {
			contexts = append(contexts, t.ContextID)
		}
		return contexts
	}
	if got := find(); len(got) != 0 {
		e.Errorf("found %v before they are in the index", got)
	}
	for more := true; more; {
		var err error
		_, more, err = e.s.IndexTasks(e.Context(), func(context.Context, string, int) (string, error) { return "", errors.New("unavailable") })
		e.ok(err)
	}
	if got := find(); !slices.Equal(got, []string{"cancelled"}) {
		e.Errorf("found %v, want what was cancelled", got)
	}
}

// read finds everything in its earlier state.
func (e *earlierStore) read() {
	e.ok(storetest.CheckInvariants(e.Context(), e.s))
	all, _, err := e.s.Tasks(e.Context(), bloom.TaskQuery{})
	e.ok(err)
	for _, t := range slices.Backward(all) {
		name := t.ContextID
		if t.Policy.Ordered {
			name = t.Prompt
		} else if _, second := e.tasks[name]; second {
			name += " again"
		}
		e.tasks[name] = t
	}
	for name, status := range map[string]bloom.TaskStatus{
		"dead": bloom.TaskDead, "expired": bloom.TaskQueued, "completed": bloom.TaskCompleted, "content elsewhere": bloom.TaskCompleted, "failed": bloom.TaskFailed,
		"retried": bloom.TaskQueued, "cancelled": bloom.TaskCancelled, "requeued": bloom.TaskQueued, "given back": bloom.TaskQueued, "leased": bloom.TaskLeased,
		"running": bloom.TaskRunning, "called off": bloom.TaskRunning, "open": bloom.TaskQueued, "labelled": bloom.TaskQueued, "completed again": bloom.TaskQueued,
		"delayed": bloom.TaskQueued, "number 0": bloom.TaskQueued, "number 1": bloom.TaskQueued, "number 2": bloom.TaskQueued,
	} {
		if e.tasks[name].Status != status {
			e.Errorf("%s is %q, want %q", name, e.tasks[name].Status, status)
		}
	}
	st, err := e.s.Stats(e.Context())
	if err != nil || st.Tasks.Total != 19 || st.Leases.Active != 3 {
		e.Errorf("stats: %+v, %v", st, err)
	}
	if results, err := e.s.Results(e.Context(), e.tasks["completed"].ID); err != nil || len(results) != 1 || results[0].Output == nil {
		e.Errorf("the results of a completed task: %+v, %v", results, err)
	}
	if drained, err := e.s.ControlDrained(e.Context()); err != nil || !slices.Equal(drained, []string{"drained"}) {
		e.Errorf("drained at the control plane: %v, %v", drained, err)
	}
	if w, _, err := e.s.Worker(e.Context(), "drained"); err != nil || !w.Draining {
		e.Errorf("the drained worker: %+v, %v", w, err)
	}
	n := storetest.Plain("completed")
	n.IdempotencyScope, n.Spec.IdempotencyKey = "client", "once"
	if first, replayed, err := e.s.CreateTask(e.Context(), n); err != nil || !replayed || first.ID != e.tasks["completed"].ID {
		e.Errorf("an earlier key again: %s, %v, %v", first.ID, replayed, err)
	}
}

// claim makes the worker's next claim and returns the contexts of its new tasks.
func (e *earlierStore) claim() (given []string, res bloom.ClaimResult) {
	e.Helper()
	res, err := e.s.Claim(e.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 8, TTLSec: 7200, Held: e.held, Renew: true})
	e.ok(err)
	for _, l := range res.Leases {
		e.held = append(e.held, l.Lease.ID)
		given = append(given, l.Task.ContextID)
		if l.Task.Prompt == "" {
			e.Errorf("%s comes without its prompt", l.Task.ContextID)
		}
	}
	return given, res
}

// goOn continues the worker that held three tasks during the upgrade.
func (e *earlierStore) goOn() {
	_, leases, err := e.s.Worker(e.Context(), "w")
	e.ok(err)
	for _, l := range leases {
		e.held = append(e.held, l.ID)
	}
	given, res := e.claim()
	if len(res.Renewed) != 3 || len(res.Cancel) != 1 || len(res.Lost) != 0 || len(given) != 5 || given[0] != "labelled" {
		e.Errorf("the worker holds %d and is given %v: %+v", len(leases), given, res)
	}
	lease := *e.tasks["running"].LeaseID
	last, err := e.s.AppendEvents(e.Context(), e.tasks["running"].ID, lease, []bloom.WorkerEvent{{Seq: 1, Type: "text"}, {Seq: 2, Type: "text"}})
	e.ok(err)
	if events, err := e.s.Events(e.Context(), e.tasks["running"].ID, 0, 0); err != nil || int64(len(events)) != last {
		e.Errorf("the stream has %d events and ends at %d: %v", len(events), last, err)
	}
}

// finish completes every task until none is left.
func (e *earlierStore) finish() {
	for done := 0; ; {
		_, leases, err := e.s.Worker(e.Context(), "w")
		e.ok(err)
		if len(leases) == 0 {
			if done < 10 {
				e.Errorf("only %d tasks were given out", done)
			}
			break
		}
		for _, l := range leases {
			_, err := e.s.Complete(e.Context(), storetest.Success(l.TaskID, l.ID))
			e.ok(err)
			done++
		}
		e.held = nil
		e.claim()
	}
	for _, name := range []string{"failed", "dead", "cancelled"} {
		_, err := e.s.Requeue(e.Context(), e.tasks[name].ID, "me")
		e.ok(err)
	}
	all, _, err := e.s.Tasks(e.Context(), bloom.TaskQuery{})
	e.ok(err)
	for _, t := range all {
		if !t.Status.Terminal() && !slices.Contains([]string{"failed", "dead", "cancelled"}, t.ContextID) {
			e.Errorf("%s (%s) is still %s", t.ContextID, t.Prompt, t.Status)
		}
	}
}
