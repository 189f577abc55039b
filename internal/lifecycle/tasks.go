package lifecycle

import (
	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Operation is something that happens to a task.
type Operation string

// The operations of the lifecycle.
const (
	OpLease     Operation = "lease"     // leased to a worker
	OpHeartbeat Operation = "heartbeat" // its worker sends a heartbeat
	OpSucceed   Operation = "succeed"   // completion with a success
	OpFail      Operation = "fail"      // completion with an error
	OpRetry     Operation = "retry"     // completion with an error marked retryable
	OpRelease   Operation = "release"   // its worker releases it
	OpSuspend   Operation = "suspend"   // its run waits for a person
	OpExpire    Operation = "expire"    // the reaper found its lease overdue
	OpCancel    Operation = "cancel"
	OpRequeue   Operation = "requeue"
)

// Edge is one allowed transition of a task.
type Edge struct {
	From bloom.TaskStatus
	Op   Operation
	To   bloom.TaskStatus
	When string // the condition, in words; empty for none
}

// Edges is the transition table: every transition that the rules below allow, and no other. A test
// derives the same set by trying every rule in every state.
var Edges = []Edge{
	{bloom.TaskQueued, OpLease, bloom.TaskLeased, "due and not waiting for an ordered task"},
	{bloom.TaskQueued, OpSucceed, bloom.TaskCompleted, "late, by the last lease, not leased again"},
	{bloom.TaskQueued, OpFail, bloom.TaskFailed, "late, by the last lease, not leased again"},
	{bloom.TaskQueued, OpRetry, bloom.TaskQueued, "late, attempts left"},
	{bloom.TaskQueued, OpRetry, bloom.TaskFailed, "late, no attempts left"},
	{bloom.TaskQueued, OpCancel, bloom.TaskCancelled, ""},

	{bloom.TaskLeased, OpHeartbeat, bloom.TaskRunning, ""},
	{bloom.TaskLeased, OpSucceed, bloom.TaskCompleted, ""},
	{bloom.TaskLeased, OpFail, bloom.TaskFailed, ""},
	{bloom.TaskLeased, OpFail, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskLeased, OpRetry, bloom.TaskQueued, "attempts left"},
	{bloom.TaskLeased, OpRetry, bloom.TaskFailed, "no attempts left"},
	{bloom.TaskLeased, OpRetry, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskLeased, OpRelease, bloom.TaskQueued, ""},
	{bloom.TaskLeased, OpRelease, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskLeased, OpSuspend, bloom.TaskQueued, ""},
	{bloom.TaskLeased, OpSuspend, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskLeased, OpExpire, bloom.TaskQueued, "attempts left"},
	{bloom.TaskLeased, OpExpire, bloom.TaskDead, "no attempts left"},
	{bloom.TaskLeased, OpExpire, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskLeased, OpCancel, bloom.TaskLeased, "cancel is requested"},

	{bloom.TaskRunning, OpHeartbeat, bloom.TaskRunning, ""},
	{bloom.TaskRunning, OpSucceed, bloom.TaskCompleted, ""},
	{bloom.TaskRunning, OpFail, bloom.TaskFailed, ""},
	{bloom.TaskRunning, OpFail, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskRunning, OpRetry, bloom.TaskQueued, "attempts left"},
	{bloom.TaskRunning, OpRetry, bloom.TaskFailed, "no attempts left"},
	{bloom.TaskRunning, OpRetry, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskRunning, OpRelease, bloom.TaskQueued, ""},
	{bloom.TaskRunning, OpRelease, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskRunning, OpSuspend, bloom.TaskQueued, ""},
	{bloom.TaskRunning, OpSuspend, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskRunning, OpExpire, bloom.TaskQueued, "attempts left"},
	{bloom.TaskRunning, OpExpire, bloom.TaskDead, "no attempts left"},
	{bloom.TaskRunning, OpExpire, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskRunning, OpCancel, bloom.TaskRunning, "cancel is requested"},

	{bloom.TaskFailed, OpRequeue, bloom.TaskQueued, ""},
	{bloom.TaskDead, OpSucceed, bloom.TaskCompleted, "late"},
	{bloom.TaskDead, OpFail, bloom.TaskFailed, "late"},
	{bloom.TaskDead, OpRetry, bloom.TaskFailed, "late"},
	{bloom.TaskDead, OpRequeue, bloom.TaskQueued, ""},
	{bloom.TaskCancelled, OpRequeue, bloom.TaskQueued, ""},
}

// Created returns the transition of a new task.
func Created(t bloom.Task) Transition {
	return Transition{Task: t.TaskState, Action: audit.ActionTaskCreated, Event: bloom.EventCreated, Detail: "Created for agent " + t.AgentSlug}
}

// Cancel cancels a task: a waiting one immediately, a held one by asking its worker to stop.
// Repeating it changes nothing.
func Cancel(t bloom.TaskState, now int64) (Transition, error) {
	switch {
	case t.Status.Terminal():
		return Transition{}, bloom.Conflict("Task status is '%s' and can no longer be cancelled", t.Status)
	case t.Status == bloom.TaskQueued:
		return cancelled(t, bloom.Lease{}, now, "Cancelled while waiting"), nil
	case t.CancelRequested:
		return Transition{Task: t, Noop: true}, nil
	}
	t.CancelRequested, t.UpdatedAt = true, now
	return Transition{
		Task: t, Action: audit.ActionTaskCancelled, Event: bloom.EventCancelRequested,
		Detail: "Cancel requested; its worker is told to stop",
	}, nil
}

// Requeue requeues an ended task manually: attempts restart at 0, and a new epoch begins, so that no
// late outcome of an earlier attempt undoes it.
func Requeue(t bloom.TaskState, now int64) (Transition, error) {
	if t.Status != bloom.TaskFailed && t.Status != bloom.TaskDead && t.Status != bloom.TaskCancelled {
		return Transition{}, bloom.Conflict("Task status is '%s', expected 'failed', 'dead' or 'cancelled'", t.Status)
	}
	t = requeued(t, nil, now, now)
	t.Epoch++
	t.Attempts, t.Errors, t.CancelRequested, t.Approval = 0, 0, false, nil
	return Transition{Task: t, Action: audit.ActionTaskRequeued, Event: bloom.EventRequeued, Detail: "Requeued manually"}, nil
}

// OrderGate returns the gate of a newly queued task. blocked means that an earlier ordered task of
// its context has not ended.
func OrderGate(t bloom.TaskState, blocked bool, now int64) contract.Gate {
	switch {
	case blocked:
		return contract.GateOrdered
	case awaits(t):
		return contract.GateApproval
	case t.RunAt > now:
		return contract.GateDelayed
	}
	return contract.GateOpen
}
