package lifecycle_test

import (
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

func TestDescriptionOfATransition(t *testing.T) {
	t.Parallel()
	class := "timeout"
	for want, tr := range map[string]lifecycle.Transition{
		`{"detail":"d"}`: {Detail: "d"},
		`{"worker_id":"w","detail":"d","error_class":"timeout"}`: {
			Detail: "d", Lease: bloom.Lease{WorkerID: "w"}, Task: bloom.TaskState{ErrorClass: &class},
		},
	} {
		if got := string(tr.EventData()); got != want {
			t.Errorf("described as %s, want %s", got, want)
		}
	}
	created := lifecycle.Created(bloom.Task{AgentSlug: "a", TaskState: bloom.TaskState{Status: bloom.TaskQueued}})
	if created.Action != audit.ActionTaskCreated || created.Event != bloom.EventCreated || created.Detail != "Created for agent a" ||
		created.Task.Status != bloom.TaskQueued || created.Noop {
		t.Errorf("%+v", created)
	}
}

func TestATaskIsTheSameUntilARuleMovesIt(t *testing.T) {
	t.Parallel()
	was := bloom.TaskState{Status: bloom.TaskRunning, UpdatedAt: now, Epoch: 1, Attempts: 1, RunAt: now}
	if !lifecycle.Same(was, was) {
		t.Error("a task is not the same as itself")
	}
	for name, change := range map[string]func(*bloom.TaskState){
		"status":           func(s *bloom.TaskState) { s.Status = bloom.TaskFailed },
		"updated_at":       func(s *bloom.TaskState) { s.UpdatedAt++ },
		"epoch":            func(s *bloom.TaskState) { s.Epoch++ },
		"attempts":         func(s *bloom.TaskState) { s.Attempts-- },
		"cancel_requested": func(s *bloom.TaskState) { s.CancelRequested = true },
		"run_at":           func(s *bloom.TaskState) { s.RunAt++ },
	} {
		is := was
		if change(&is); lifecycle.Same(was, is) {
			t.Errorf("another %s is not seen", name)
		}
	}
}
