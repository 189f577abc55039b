package bloom

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// This file is the whole of the rules by which a task and its lease change
// state, as pure functions of the state before. A store reads the state, asks
// the rule, and writes what the rule says under a compare-and-set; no store
// holds a rule of its own. docs/state-machine.md draws the same table.

// Operation is something that happens to a task.
type Operation string

// The operations of the lifecycle.
const (
	OpLease     Operation = "lease"     // given to a worker
	OpHeartbeat Operation = "heartbeat" // its worker reports
	OpSucceed   Operation = "succeed"   // completion with a success
	OpFail      Operation = "fail"      // completion with an error
	OpRetry     Operation = "retry"     // completion with an error marked retryable
	OpRelease   Operation = "release"   // its worker gives it back
	OpExpire    Operation = "expire"    // the reaper found its lease overdue
	OpCancel    Operation = "cancel"
	OpRequeue   Operation = "requeue"
)

// Edge is one way a task may move.
type Edge struct {
	From TaskStatus
	Op   Operation
	To   TaskStatus
	When string // the condition, in words; empty when there is none
}

// Edges is the transition table: every move that the rules below allow, and no
// other. A test derives the same set by trying every rule on every state.
var Edges = []Edge{
	{TaskQueued, OpLease, TaskLeased, "due and not waiting for an ordered task"},
	{TaskQueued, OpSucceed, TaskCompleted, "late, by the last lease, nobody else has it"},
	{TaskQueued, OpFail, TaskFailed, "late, by the last lease, nobody else has it"},
	{TaskQueued, OpRetry, TaskQueued, "late, attempts left"},
	{TaskQueued, OpRetry, TaskFailed, "late, no attempts left"},
	{TaskQueued, OpCancel, TaskCancelled, ""},

	{TaskLeased, OpHeartbeat, TaskRunning, ""},
	{TaskLeased, OpSucceed, TaskCompleted, ""},
	{TaskLeased, OpFail, TaskFailed, ""},
	{TaskLeased, OpFail, TaskCancelled, "cancel requested"},
	{TaskLeased, OpRetry, TaskQueued, "attempts left"},
	{TaskLeased, OpRetry, TaskFailed, "no attempts left"},
	{TaskLeased, OpRetry, TaskCancelled, "cancel requested"},
	{TaskLeased, OpRelease, TaskQueued, ""},
	{TaskLeased, OpRelease, TaskCancelled, "cancel requested"},
	{TaskLeased, OpExpire, TaskQueued, "attempts left"},
	{TaskLeased, OpExpire, TaskDead, "no attempts left"},
	{TaskLeased, OpExpire, TaskCancelled, "cancel requested"},
	{TaskLeased, OpCancel, TaskLeased, "cancel is requested"},

	{TaskRunning, OpHeartbeat, TaskRunning, ""},
	{TaskRunning, OpSucceed, TaskCompleted, ""},
	{TaskRunning, OpFail, TaskFailed, ""},
	{TaskRunning, OpFail, TaskCancelled, "cancel requested"},
	{TaskRunning, OpRetry, TaskQueued, "attempts left"},
	{TaskRunning, OpRetry, TaskFailed, "no attempts left"},
	{TaskRunning, OpRetry, TaskCancelled, "cancel requested"},
	{TaskRunning, OpRelease, TaskQueued, ""},
	{TaskRunning, OpRelease, TaskCancelled, "cancel requested"},
	{TaskRunning, OpExpire, TaskQueued, "attempts left"},
	{TaskRunning, OpExpire, TaskDead, "no attempts left"},
	{TaskRunning, OpExpire, TaskCancelled, "cancel requested"},
	{TaskRunning, OpCancel, TaskRunning, "cancel is requested"},

	{TaskFailed, OpRequeue, TaskQueued, ""},
	{TaskDead, OpRequeue, TaskQueued, ""},
	{TaskCancelled, OpRequeue, TaskQueued, ""},
}

// Gate says why a queued task may not be claimed yet.
type Gate string

// The gates of a queued task.
const (
	GateOpen    Gate = "open"
	GateDelayed Gate = "delayed" // its run_at has not come
	GateOrdered Gate = "ordered" // an earlier ordered task of its context has not ended
)

// Transition is what a rule decided: the state after it, and how it is told.
type Transition struct {
	Task   TaskState
	Lease  Lease  // after; the zero Lease when none is concerned
	Action string // the audit's action; empty when nothing is audited
	Event  string // the event's type in the task's stream; empty when there is none
	Detail string // one sentence for the audit
	Noop   bool   // a repeat: nothing is to be written
}

// Actor is who the audit names for a transition: the worker of its lease when the
// caller had no name of its own.
func (t Transition) Actor(name string) string { return cmp.Or(name, t.Lease.WorkerID) }

// Audit is the state that the audit entry of a transition carries.
func (t TaskState) Audit() AuditState {
	a := AuditState{
		Status: t.Status, Epoch: t.Epoch, Attempts: t.Attempts, CancelRequested: t.CancelRequested,
		LeaseID: t.LeaseID, WorkerID: t.WorkerID, ErrorClass: t.ErrorClass,
	}
	if t.Status == TaskQueued && t.RunAt > t.UpdatedAt {
		a.RunAt = t.RunAt
	}
	return a
}

// Same reports whether a rule has left a task as it was: what is not compared
// never changes alone.
func (t TaskState) Same(b TaskState) bool {
	return t.Status == b.Status && t.UpdatedAt == b.UpdatedAt && t.Epoch == b.Epoch && t.Attempts == b.Attempts &&
		t.CancelRequested == b.CancelRequested && t.RunAt == b.RunAt
}

// EventData is what a transition's event in the task's stream carries.
func (t Transition) EventData() json.RawMessage {
	return EventData(MustJSON(struct {
		WorkerID   string  `json:"worker_id,omitempty"`
		Detail     string  `json:"detail"`
		ErrorClass *string `json:"error_class,omitempty"`
	}{t.Lease.WorkerID, t.Detail, t.Task.ErrorClass}))
}

// Created is how a task that was not there before is told.
func Created(t Task) Transition {
	return Transition{Task: t.TaskState, Action: ActionTaskCreated, Event: EventCreated, Detail: "Created for agent " + t.AgentSlug}
}

// GrantLease gives a queued task to a worker: epoch and attempts grow by one.
// ordered tells that the task still waits for an earlier ordered one. now and
// the lease's times are Unix milliseconds.
func GrantLease(t TaskState, taskID, contextID, leaseID, workerID string, ttlSec int, ordered bool, now int64) (Transition, error) {
	switch {
	case t.Status != TaskQueued:
		return Transition{}, Conflict("Task status is '%s', expected 'queued'", t.Status)
	case ordered:
		return Transition{}, Conflict("Task waits for an earlier ordered task of its context")
	case t.RunAt > now:
		return Transition{}, Conflict("Task is not due before %s", time.UnixMilli(t.RunAt).UTC().Format(time.RFC3339))
	}
	t.Status, t.UpdatedAt = TaskLeased, now
	t.Epoch++
	t.Attempts++
	t.LeaseID, t.WorkerID = &leaseID, &workerID
	lease := Lease{
		ID: leaseID, TaskID: taskID, WorkerID: workerID, StartedAt: now,
		ExpiresAt: now + int64(ttlSec)*1000, TTLSeconds: ttlSec, Status: LeaseActive,
		LastHeartbeat: now, ContextID: &contextID, Epoch: t.Epoch,
	}
	return Transition{
		Task: t, Lease: lease, Action: ActionTaskLeased, Event: EventLeased,
		Detail: fmt.Sprintf("Leased to %s for %d s (attempt %d of %d)", workerID, ttlSec, t.Attempts, t.MaxAttempts),
	}, nil
}

// current reports whether l is the lease that t is held under.
func current(t TaskState, l Lease) bool {
	return t.Status.Held() && l.Status == LeaseActive && l.Epoch == t.Epoch && t.LeaseID != nil && *t.LeaseID == l.ID
}

// late reports whether l was reaped but nobody has been given the task since:
// its result is still welcome, running the task again would help no one.
func late(t TaskState, l Lease) bool {
	return t.Status == TaskQueued && l.Status == LeaseExpired && l.Epoch == t.Epoch
}

// Beat renews a lease; the first one makes the task running. Only that first
// one is audited.
func Beat(t TaskState, l Lease, now int64) (Transition, error) {
	if !current(t, l) {
		return Transition{}, ErrLeaseLost
	}
	l.LastHeartbeat, l.ExpiresAt = now, now+int64(l.TTLSeconds)*1000
	tr := Transition{Task: t, Lease: l}
	if t.Status == TaskLeased {
		tr.Task.Status, tr.Task.UpdatedAt = TaskRunning, now
		tr.Action, tr.Event, tr.Detail = ActionTaskStarted, EventStarted, "Started on "+l.WorkerID
	}
	return tr, nil
}

// Finish ends a lease with a completion. The caller has already told a repeat
// of the same completion from a new one. A retryable error puts the task back
// only while attempts are left, after RetryDelay.
func Finish(t TaskState, l Lease, c Completion, now int64) (Transition, error) {
	if !current(t, l) && !late(t, l) {
		return Transition{}, ErrLeaseLost
	}
	l.Status = LeaseReleased
	t.UpdatedAt = now
	t.LeaseID, t.WorkerID = &l.ID, &l.WorkerID
	tr := Transition{Action: ActionTaskCompleted}
	class := errorClass(c)
	switch {
	case c.Status == OutcomeSuccess:
		t.Status, t.ErrorClass = TaskCompleted, nil
		tr.Event, tr.Detail = EventCompleted, "Completed by "+l.WorkerID
	case t.CancelRequested:
		class = ClassCancelled
		t.Status, t.ErrorClass = TaskCancelled, &class
		tr.Action, tr.Event, tr.Detail = ActionTaskCancelled, EventCancelled, "Cancelled; stopped by "+l.WorkerID
	case c.Retryable && c.LeaseID != "" && t.Attempts < t.MaxAttempts:
		t = requeued(t, &class, now+RetryDelay(t.Attempts).Milliseconds(), now)
		tr.Action, tr.Event = ActionTaskRetried, EventRetried
		tr.Detail = fmt.Sprintf("Attempt %d of %d failed (%s); will be tried again", t.Attempts, t.MaxAttempts, class)
	default:
		t.Status, t.ErrorClass = TaskFailed, &class
		tr.Event, tr.Detail = EventFailed, fmt.Sprintf("Failed on %s (%s)", l.WorkerID, class)
	}
	tr.Task, tr.Lease = t, l
	return tr, nil
}

func errorClass(c Completion) string {
	if c.ErrorClass == "" {
		return ClassInternal
	}
	return c.ErrorClass
}

// requeued is t waiting for a worker again, not before runAt.
func requeued(t TaskState, class *string, runAt, now int64) TaskState {
	t.Status, t.UpdatedAt, t.RunAt, t.ErrorClass = TaskQueued, now, runAt, class
	t.LeaseID, t.WorkerID = nil, nil
	return t
}

// RetryDelay is how long a task waits after its nth failed attempt: 5 s, then
// twice as long each time, at most 5 minutes.
func RetryDelay(attempt int) time.Duration {
	const base, most = 5 * time.Second, 5 * time.Minute
	if attempt > 7 {
		return most
	}
	return min(base<<max(0, attempt-1), most)
}

// MaxReleaseDelay bounds how long a released task may be kept from the queue. It
// is longer than any limit of a model's provider lasts (a week).
const MaxReleaseDelay = 8 * 24 * time.Hour

// GiveBack releases a lease and refunds its attempt. Releasing again what this
// lease already gave back is a repeat and changes nothing. A notBefore that is
// more than MaxReleaseDelay away counts as that.
func GiveBack(t TaskState, l Lease, reason string, notBefore, now int64) (Transition, error) {
	if t.Status == TaskQueued && l.Status == LeaseReleased && l.Epoch == t.Epoch {
		return Transition{Task: t, Lease: l, Noop: true}, nil
	}
	if !current(t, l) {
		return Transition{}, ErrLeaseLost
	}
	l.Status = LeaseReleased
	t.Attempts--
	if t.CancelRequested {
		return cancelled(t, l, now, "Cancelled; given back by "+l.WorkerID), nil
	}
	t = requeued(t, nil, min(max(now, notBefore), now+MaxReleaseDelay.Milliseconds()), now)
	return Transition{
		Task: t, Lease: l, Action: ActionTaskReleased, Event: EventReleased,
		Detail: fmt.Sprintf("Given back by %s: %s", l.WorkerID, reason),
	}, nil
}

func cancelled(t TaskState, l Lease, now int64, detail string) Transition {
	class := ClassCancelled
	t.Status, t.UpdatedAt, t.ErrorClass = TaskCancelled, now, &class
	return Transition{Task: t, Lease: l, Action: ActionTaskCancelled, Event: EventCancelled, Detail: detail}
}

// Expire ends an overdue lease. A lease that is not overdue, or no longer
// current, is left alone: the transition is a Noop.
func Expire(t TaskState, l Lease, now int64) Transition {
	if !current(t, l) || l.ExpiresAt > now {
		return Transition{Task: t, Lease: l, Noop: true}
	}
	l.Status = LeaseExpired
	class := ClassWorkerLost
	switch {
	case t.CancelRequested:
		return cancelled(t, l, now, "Cancelled; "+l.WorkerID+" did not report any more")
	case t.Attempts < t.MaxAttempts:
		return Transition{
			Task: requeued(t, &class, now, now), Lease: l, Action: ActionTaskExpired, Event: EventExpired,
			Detail: fmt.Sprintf("Lease of %s expired (attempt %d of %d); back in the queue", l.WorkerID, t.Attempts, t.MaxAttempts),
		}
	}
	t.Status, t.UpdatedAt, t.ErrorClass = TaskDead, now, &class
	return Transition{
		Task: t, Lease: l, Action: ActionTaskDead, Event: EventDead,
		Detail: fmt.Sprintf("Lease of %s expired on the last of %d attempts", l.WorkerID, t.MaxAttempts),
	}
}

// Cancel calls a task off: at once while it waits, by asking its worker to stop
// while it is held. Asking again changes nothing.
func Cancel(t TaskState, now int64) (Transition, error) {
	switch {
	case t.Status.Terminal():
		return Transition{}, Conflict("Task status is '%s' and cannot be cancelled any more", t.Status)
	case t.Status == TaskQueued:
		return cancelled(t, Lease{}, now, "Cancelled while waiting"), nil
	case t.CancelRequested:
		return Transition{Task: t, Noop: true}, nil
	}
	t.CancelRequested, t.UpdatedAt = true, now
	return Transition{
		Task: t, Action: ActionTaskCancelled, Event: EventCancelRequested,
		Detail: "Cancel requested; its worker is told to stop",
	}, nil
}

// Requeue puts an ended task back by hand: attempts start again at 0, the epoch
// goes on growing so that leases of before stay fenced off.
func Requeue(t TaskState, now int64) (Transition, error) {
	if t.Status != TaskFailed && t.Status != TaskDead && t.Status != TaskCancelled {
		return Transition{}, Conflict("Task status is '%s', expected 'failed', 'dead' or 'cancelled'", t.Status)
	}
	t = requeued(t, nil, now, now)
	t.Attempts, t.CancelRequested = 0, false
	return Transition{Task: t, Action: ActionTaskRequeued, Event: EventRequeued, Detail: "Requeued by hand"}, nil
}

// OrderGate is the gate of a task that has just been queued: blocked tells that
// an earlier ordered task of its context has not ended.
func OrderGate(t TaskState, blocked bool, now int64) Gate {
	switch {
	case blocked:
		return GateOrdered
	case t.RunAt > now:
		return GateDelayed
	}
	return GateOpen
}
