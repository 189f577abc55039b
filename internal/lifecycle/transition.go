package lifecycle

import (
	"cmp"
	"encoding/json"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// Transition is the result of a rule: the new state, and how to record it.
type Transition struct {
	Task   bloom.TaskState
	Lease  bloom.Lease // after; zero if no lease is involved
	Action string      // the audit action; empty for no audit entry
	Event  string      // the type of the event in the task's stream; empty for none
	Detail string      // one sentence for the audit
	Noop   bool        // a repetition: nothing to write
}

// Actor returns the actor for the audit: name, or the worker of the lease if it is empty.
func (t Transition) Actor(name string) string { return cmp.Or(name, t.Lease.WorkerID) }

// Audited returns the state for the audit entry of a transition.
func Audited(t bloom.TaskState) audit.TaskState {
	a := audit.TaskState{
		Status: t.Status, Epoch: t.Epoch, Attempts: t.Attempts, CancelRequested: t.CancelRequested,
		LeaseID: t.LeaseID, WorkerID: t.WorkerID, ErrorClass: t.ErrorClass,
	}
	if t.Status == bloom.TaskQueued && t.RunAt > t.UpdatedAt {
		a.RunAt = t.RunAt
	}
	return a
}

// Same reports whether a rule left a task unchanged. Fields that are not compared never change
// alone.
func Same(t, b bloom.TaskState) bool {
	return t.Status == b.Status && t.UpdatedAt == b.UpdatedAt && t.Epoch == b.Epoch && t.Attempts == b.Attempts &&
		t.CancelRequested == b.CancelRequested && t.RunAt == b.RunAt && t.Approval == b.Approval
}

// EventData returns the data of the transition's event in the task's stream.
func (t Transition) EventData() json.RawMessage {
	return storable.EventData(storable.MustJSON(struct {
		WorkerID   string  `json:"worker_id,omitempty"`
		Detail     string  `json:"detail"`
		ErrorClass *string `json:"error_class,omitempty"`
	}{t.Lease.WorkerID, t.Detail, t.Task.ErrorClass}))
}
