package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

func TestAStaleLeaseIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	for _, s := range situations() {
		if s.lease.Epoch == s.task.Epoch {
			continue
		}
		for _, op := range []lifecycle.Operation{lifecycle.OpHeartbeat, lifecycle.OpSucceed, lifecycle.OpFail, lifecycle.OpRetry, lifecycle.OpRelease, lifecycle.OpSuspend} {
			if _, err := operations[op](s); !errors.Is(err, bloom.ErrLeaseLost) {
				t.Errorf("%s on %s: got %v, want lease_lost", op, s, err)
			}
		}
		if tr := lifecycle.Expire(s.task, s.lease, now); !tr.Noop {
			t.Errorf("expire on %s: moved to %s", s, tr.Task.Status)
		}
	}
}

func TestALateResultIsTakenWhileNobodyElseHasTheTask(t *testing.T) {
	t.Parallel()
	late := newSituation(bloom.TaskQueued, 1, false, bloom.LeaseExpired, 7)
	tr, err := operations[lifecycle.OpSucceed](late)
	if err != nil || tr.Task.Status != bloom.TaskCompleted || *tr.Task.LeaseID != "lease-7" {
		t.Errorf("late success: %+v, %v; want completed under lease-7", tr.Task, err)
	}
	for op, want := range map[lifecycle.Operation]bloom.TaskStatus{
		lifecycle.OpSucceed: bloom.TaskCompleted, lifecycle.OpFail: bloom.TaskFailed, lifecycle.OpRetry: bloom.TaskFailed,
	} {
		dead := newSituation(bloom.TaskDead, 3, false, bloom.LeaseExpired, 7)
		if tr, err := operations[op](dead); err != nil || tr.Task.Status != want {
			t.Errorf("late %s on a dead task: %s, %v; want %s", op, tr.Task.Status, err, want)
		}
		again, err := lifecycle.Requeue(dead.task, now)
		if err != nil {
			t.Fatal(err)
		}
		dead.task = again.Task
		if tr, err := operations[op](dead); !errors.Is(err, bloom.ErrLeaseLost) {
			t.Errorf("late %s on a task that was requeued manually: %s, %v; want lease_lost", op, tr.Task.Status, err)
		}
	}
	for _, status := range []bloom.TaskStatus{bloom.TaskCancelled, bloom.TaskLeased} {
		if _, err := operations[lifecycle.OpSucceed](newSituation(status, 3, false, bloom.LeaseExpired, 7)); !errors.Is(err, bloom.ErrLeaseLost) {
			t.Errorf("late success on a %s task: %v, want lease_lost", status, err)
		}
	}
	if _, err := operations[lifecycle.OpHeartbeat](late); !errors.Is(err, bloom.ErrLeaseLost) {
		t.Errorf("a reaped lease was revived: %v", err)
	}
}

func TestALeaseIsValidUntilItIsReaped(t *testing.T) {
	t.Parallel()
	s := newSituation(bloom.TaskRunning, 1, false, bloom.LeaseActive, 7)
	overdue := now + time.Hour.Milliseconds()
	tr, err := lifecycle.Heartbeat(s.task, s.lease, overdue)
	if err != nil || tr.Lease.ExpiresAt != overdue+60_000 {
		t.Errorf("overdue heartbeat: expires_at %d, %v; want it revived for 60 s", tr.Lease.ExpiresAt, err)
	}
	if tr := lifecycle.Expire(s.task, s.lease, s.lease.ExpiresAt-1); !tr.Noop {
		t.Error("a lease was expired before its time")
	}
	if tr := lifecycle.Expire(s.task, s.lease, s.lease.ExpiresAt); tr.Noop {
		t.Error("a lease outlived its time")
	}
}

func TestRetryNeedsAWorkerThatNamesItsLease(t *testing.T) {
	t.Parallel()
	s := newSituation(bloom.TaskRunning, 1, false, bloom.LeaseActive, 7)
	c := completion(bloom.OutcomeError, true)
	c.LeaseID = ""
	tr, err := lifecycle.Finish(s.task, s.lease, c, now)
	if err != nil || tr.Task.Status != bloom.TaskFailed {
		t.Errorf("got %s, %v; a client that names no lease gets the described plain failure", tr.Task.Status, err)
	}
	tr, err = operations[lifecycle.OpRetry](s)
	if err != nil || tr.Task.RunAt != now+lifecycle.RetryDelay(1).Milliseconds() {
		t.Errorf("retry waits until %d, %v", tr.Task.RunAt, err)
	}
}

func TestRetryDelayGrowsToACap(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for attempt := range 70 {
		d := lifecycle.RetryDelay(attempt)
		if d < last || d < 5*time.Second || d > 5*time.Minute {
			t.Fatalf("attempt %d waits %s after %s", attempt, d, last)
		}
		last = d
	}
	if last != 5*time.Minute {
		t.Errorf("the longest wait is %s", last)
	}
}

func TestGrantingALeaseWaitsForTimeAndOrder(t *testing.T) {
	t.Parallel()
	s := newSituation(bloom.TaskQueued, 1, false, bloom.LeaseReleased, 7)
	if _, err := lifecycle.GrantLease(s.task, "task", "c", "l", "w", 60, true, now); bloom.KindOf(err) != bloom.KindConflict {
		t.Errorf("an ordered task went ahead of its turn: %v", err)
	}
	s.task.RunAt = now + 1
	if _, err := lifecycle.GrantLease(s.task, "task", "c", "l", "w", 60, false, now); bloom.KindOf(err) != bloom.KindConflict {
		t.Errorf("a task started before its time: %v", err)
	}
}

func TestReleasingAgainChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSituation(bloom.TaskQueued, 1, false, bloom.LeaseReleased, 7)
	if tr, err := operations[lifecycle.OpRelease](s); err != nil || !tr.Noop {
		t.Errorf("second release: noop %t, %v", tr.Noop, err)
	}
}
