package lifecycle

import (
	"cmp"
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
)

// awaits reports whether a queued task is suspended until a person decides.
func awaits(t bloom.TaskState) bool {
	s := t.Suspension()
	return s != nil && !s.Decided
}

// Asks returns a task whose run asks for approval under its lease. A task asks one thing at a time.
func Asks(t bloom.TaskState, l bloom.Lease, id string) (bloom.TaskState, error) {
	if !current(t, l) {
		return t, bloom.ErrLeaseLost
	}
	t.Approval = &bloom.TaskApproval{Asking: id, Suspended: t.Suspension()}
	return t, nil
}

// Answered returns a task one of whose requests was decided, or whose decision was carried out.
func Answered(t bloom.TaskState, id string) bloom.TaskState {
	now := bloom.TaskApproval{Suspended: t.Suspension()}
	if t.Approval != nil && t.Approval.Asking != id {
		now.Asking = t.Approval.Asking
	}
	if now.Suspended != nil && now.Suspended.ApprovalID == id {
		decided := *now.Suspended
		decided.Decided = true
		now.Suspended = &decided
	}
	t.Approval = &now
	return noted(t)
}

// Suspend ends a lease whose run waits for a person, and refunds its attempt. metrics is what the
// attempt used. Repeating it changes nothing.
func Suspend(t bloom.TaskState, l bloom.Lease, a bloom.Approval, metrics bloom.Metrics, now int64) (Transition, error) {
	if t.Status == bloom.TaskQueued && l.Status == bloom.LeaseReleased && l.Epoch == t.Epoch && t.Suspension() != nil && t.Suspension().ApprovalID == a.ID {
		return Transition{Task: t, Lease: l, Noop: true}, nil
	}
	if !current(t, l) {
		return Transition{}, bloom.ErrLeaseLost
	}
	l.Status, l.LastHeartbeat = bloom.LeaseReleased, now
	if used := metrics.Usage(); used != (bloom.Usage{}) {
		l.Usage = used
	}
	t.Attempts--
	if t.CancelRequested {
		return cancelled(t, l, now, "Cancelled while it waited for an approval"), nil
	}
	s := bloom.Suspension{ApprovalID: a.ID, ToolUseID: a.ToolUseID, Decided: a.Status != bloom.ApprovalPending, Metrics: metrics}
	if was := t.Suspension(); was != nil {
		s.Metrics = Together(was.Metrics, metrics)
	}
	t = requeued(t, nil, now, now)
	t.Approval = &bloom.TaskApproval{Suspended: &s}
	return Transition{
		Task: t, Lease: l, Action: audit.ActionTaskSuspended, Event: bloom.EventSuspended,
		Detail: fmt.Sprintf("Suspended on %s until a person decides about %s", l.WorkerID, a.Tool),
	}, nil
}

// noted returns t without an empty Approval.
func noted(t bloom.TaskState) bloom.TaskState {
	if t.Approval != nil && t.Approval.Asking == "" && t.Approval.Suspended == nil {
		t.Approval = nil
	}
	return t
}

// attemptEnded returns a task whose attempt has ended otherwise than by a suspension: what it asked
// is void, and it goes on where it was suspended last.
func attemptEnded(t bloom.TaskState) bloom.TaskState {
	if t.Approval != nil {
		t.Approval = &bloom.TaskApproval{Suspended: t.Approval.Suspended}
	}
	return noted(t)
}

// Together adds what two parts of a run have used.
func Together(a, b bloom.Metrics) bloom.Metrics {
	sum := b
	sum.DurationMS += a.DurationMS
	add := func(into **int64, more *int64) {
		if more != nil {
			total := *more
			if *into != nil {
				total += **into
			}
			*into = &total
		}
	}
	add(&sum.TokensUsed, a.TokensUsed)
	add(&sum.InputTokens, a.InputTokens)
	add(&sum.OutputTokens, a.OutputTokens)
	add(&sum.NumTurns, a.NumTurns)
	if a.CostUSD != nil {
		cost := *a.CostUSD
		if sum.CostUSD != nil {
			cost += *sum.CostUSD
		}
		sum.CostUSD = &cost
	}
	sum.Model = cmp.Or(sum.Model, a.Model)
	if sum.CostKind == "" || sum.CostKind == "none" {
		sum.CostKind = cmp.Or(a.CostKind, sum.CostKind)
	}
	sum.Warnings = append(append([]bloom.Warning(nil), a.Warnings...), b.Warnings...)
	if len(sum.Warnings) > bloom.MaxWarnings {
		sum.Warnings = sum.Warnings[:bloom.MaxWarnings]
	}
	return sum
}
