// Package lifecycle has the rules by which tasks, leases and workers change, as pure functions of
// their previous state. Stores read the state, call the rule, and write its result; they have no
// rules of their own.
package lifecycle

import (
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
)

// GrantLease leases a queued task to a worker: epoch and attempts grow by one. ordered means that
// the task waits for an earlier ordered one. now and the lease's times are in Unix milliseconds.
func GrantLease(t bloom.TaskState, taskID, contextID, leaseID, workerID string, ttlSec int, ordered bool, now int64) (Transition, error) {
	switch {
	case t.Status != bloom.TaskQueued:
		return Transition{}, bloom.Conflict("Task status is '%s', expected 'queued'", t.Status)
	case awaits(t):
		return Transition{}, bloom.Conflict("Task waits for a person's decision")
	case ordered:
		return Transition{}, bloom.Conflict("Task waits for an earlier ordered task of its context")
	case t.RunAt > now:
		return Transition{}, bloom.Conflict("Task is not due before %s", time.UnixMilli(t.RunAt).UTC().Format(time.RFC3339))
	}
	t.Status, t.UpdatedAt = bloom.TaskLeased, now
	t.Epoch++
	t.Attempts++
	t.LeaseID, t.WorkerID = &leaseID, &workerID
	lease := bloom.Lease{
		ID: leaseID, TaskID: taskID, WorkerID: workerID, StartedAt: now,
		ExpiresAt: now + int64(ttlSec)*1000, TTLSeconds: ttlSec, Status: bloom.LeaseActive,
		LastHeartbeat: now, ContextID: &contextID, Epoch: t.Epoch,
	}
	return Transition{
		Task: t, Lease: lease, Action: audit.ActionTaskLeased, Event: bloom.EventLeased,
		Detail: fmt.Sprintf("Leased to %s for %d s (attempt %d of %d)", workerID, ttlSec, t.Attempts, t.MaxAttempts),
	}, nil
}

// current reports whether l is the lease that t is held under.
func current(t bloom.TaskState, l bloom.Lease) bool {
	return t.Status.Held() && l.Status == bloom.LeaseActive && l.Epoch == t.Epoch && t.LeaseID != nil && *t.LeaseID == l.ID
}

// late reports whether l was reaped and the task has neither been leased nor requeued manually
// since: its result is still accepted, because running the task again would help no one.
func late(t bloom.TaskState, l bloom.Lease) bool {
	return (t.Status == bloom.TaskQueued || t.Status == bloom.TaskDead) && l.Status == bloom.LeaseExpired && l.Epoch == t.Epoch
}

// Heartbeat renews a lease. The first heartbeat sets the task running, and only that one is
// audited.
func Heartbeat(t bloom.TaskState, l bloom.Lease, now int64) (Transition, error) {
	if !current(t, l) {
		return Transition{}, bloom.ErrLeaseLost
	}
	l.LastHeartbeat, l.ExpiresAt = now, now+int64(l.TTLSeconds)*1000
	tr := Transition{Task: t, Lease: l}
	if t.Status == bloom.TaskLeased {
		tr.Task.Status, tr.Task.UpdatedAt = bloom.TaskRunning, now
		tr.Action, tr.Event, tr.Detail = audit.ActionTaskStarted, bloom.EventStarted, "Started on "+l.WorkerID
	}
	return tr, nil
}

// Finish ends a lease with a completion. The caller has already handled repetitions of the same
// completion. A retryable error requeues the task, after RetryDelay, only while attempts are left.
func Finish(t bloom.TaskState, l bloom.Lease, c bloom.Completion, now int64) (Transition, error) {
	if !current(t, l) && !late(t, l) {
		return Transition{}, bloom.ErrLeaseLost
	}
	l.Status, l.LastHeartbeat = bloom.LeaseReleased, now
	t.UpdatedAt = now
	t = attemptEnded(t)
	t.LeaseID, t.WorkerID = &l.ID, &l.WorkerID
	tr := Transition{Action: audit.ActionTaskCompleted}
	class := errorClass(c)
	switch {
	case c.Status == bloom.OutcomeSuccess:
		t.Status, t.ErrorClass, t.Approval = bloom.TaskCompleted, nil, nil
		tr.Event, tr.Detail = bloom.EventCompleted, "Completed by "+l.WorkerID
	case t.CancelRequested:
		class = bloom.ClassCancelled
		t.Status, t.ErrorClass, t.Approval = bloom.TaskCancelled, &class, nil
		tr.Action, tr.Event, tr.Detail = audit.ActionTaskCancelled, bloom.EventCancelled, "Cancelled; stopped by "+l.WorkerID
	case c.Retryable && c.LeaseID != "" && t.Attempts < t.MaxAttempts:
		if class != bloom.ClassWorkerLost {
			t.Errors++
		}
		t = requeued(t, &class, now+RetryDelay(t.Errors).Milliseconds(), now)
		tr.Action, tr.Event = audit.ActionTaskRetried, bloom.EventRetried
		tr.Detail = fmt.Sprintf("Attempt %d of %d failed (%s); will be retried", t.Attempts, t.MaxAttempts, class)
	default:
		t.Status, t.ErrorClass, t.Approval = bloom.TaskFailed, &class, nil
		tr.Event, tr.Detail = bloom.EventFailed, fmt.Sprintf("Failed on %s (%s)", l.WorkerID, class)
	}
	tr.Task, tr.Lease = t, l
	return tr, nil
}

func errorClass(c bloom.Completion) string {
	if c.ErrorClass == "" {
		return bloom.ClassInternal
	}
	return c.ErrorClass
}

// requeued returns t queued again, not to start before runAt.
func requeued(t bloom.TaskState, class *string, runAt, now int64) bloom.TaskState {
	t.Status, t.UpdatedAt, t.RunAt, t.ErrorClass = bloom.TaskQueued, now, runAt, class
	t.LeaseID, t.WorkerID = nil, nil
	return t
}

// RetryDelay returns how long a task waits after its nth error: 5 s, doubled for each, at most 5
// minutes. Attempts that were lost with their worker do not count.
func RetryDelay(errors int) time.Duration {
	const base, most = 5 * time.Second, 5 * time.Minute
	if errors > 7 {
		return most
	}
	return min(base<<max(0, errors-1), most)
}

// Release ends a lease and refunds its attempt. Repeating the release of the same lease changes
// nothing. A notBefore more than MaxReleaseDelay ahead is reduced to that.
func Release(t bloom.TaskState, l bloom.Lease, reason string, notBefore, now int64) (Transition, error) {
	if t.Status == bloom.TaskQueued && l.Status == bloom.LeaseReleased && l.Epoch == t.Epoch {
		return Transition{Task: t, Lease: l, Noop: true}, nil
	}
	if !current(t, l) {
		return Transition{}, bloom.ErrLeaseLost
	}
	l.Status, l.LastHeartbeat = bloom.LeaseReleased, now
	t = attemptEnded(t)
	t.Attempts--
	if t.CancelRequested {
		return cancelled(t, l, now, "Cancelled; released by "+l.WorkerID), nil
	}
	t = requeued(t, nil, min(max(now, notBefore), now+bloom.MaxReleaseDelay.Milliseconds()), now)
	return Transition{
		Task: t, Lease: l, Action: audit.ActionTaskReleased, Event: bloom.EventReleased,
		Detail: fmt.Sprintf("Released by %s: %s", l.WorkerID, reason),
	}, nil
}

func cancelled(t bloom.TaskState, l bloom.Lease, now int64, detail string) Transition {
	class := bloom.ClassCancelled
	t.Status, t.UpdatedAt, t.ErrorClass, t.Approval = bloom.TaskCancelled, now, &class, nil
	return Transition{Task: t, Lease: l, Action: audit.ActionTaskCancelled, Event: bloom.EventCancelled, Detail: detail}
}

// Expire ends an overdue lease. For a lease that is not overdue, or no longer current, the
// transition is a Noop.
func Expire(t bloom.TaskState, l bloom.Lease, now int64) Transition {
	if !current(t, l) || l.ExpiresAt > now {
		return Transition{Task: t, Lease: l, Noop: true}
	}
	l.Status = bloom.LeaseExpired
	t = attemptEnded(t)
	class := bloom.ClassWorkerLost
	switch {
	case t.CancelRequested:
		return cancelled(t, l, now, "Cancelled; "+l.WorkerID+" stopped reporting")
	case t.Attempts < t.MaxAttempts:
		return Transition{
			Task: requeued(t, &class, now, now), Lease: l, Action: audit.ActionTaskExpired, Event: bloom.EventExpired,
			Detail: fmt.Sprintf("Lease of %s expired (attempt %d of %d); back in the queue", l.WorkerID, t.Attempts, t.MaxAttempts),
		}
	}
	t.Status, t.UpdatedAt, t.ErrorClass, t.Approval = bloom.TaskDead, now, &class, nil
	return Transition{
		Task: t, Lease: l, Action: audit.ActionTaskDead, Event: bloom.EventDead,
		Detail: fmt.Sprintf("Lease of %s expired on the last of %d attempts", l.WorkerID, t.MaxAttempts),
	}
}
