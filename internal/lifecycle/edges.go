package lifecycle

import "github.com/bloom-runtime/bloom"

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
	{bloom.TaskRunning, OpExpire, bloom.TaskQueued, "attempts left"},
	{bloom.TaskRunning, OpExpire, bloom.TaskDead, "no attempts left"},
	{bloom.TaskRunning, OpExpire, bloom.TaskCancelled, "cancel requested"},
	{bloom.TaskRunning, OpCancel, bloom.TaskRunning, "cancel is requested"},

	{bloom.TaskFailed, OpRequeue, bloom.TaskQueued, ""},
	{bloom.TaskDead, OpRequeue, bloom.TaskQueued, ""},
	{bloom.TaskCancelled, OpRequeue, bloom.TaskQueued, ""},
}
