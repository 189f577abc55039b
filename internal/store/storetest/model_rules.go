package storetest

import (
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// This file has the model's own rules. They are written from docs/development/state-machine.md and use nothing
// of internal/lifecycle, so that a wrong rule there is found: only what a task remembers here, who
// holds it and who held it last, decides.

// grantable returns why a task cannot be leased now, or nil.
func (m *model) grantable(t *modelTask) error {
	if t.state.Status != bloom.TaskQueued || m.blocked(t) || m.now() < t.state.RunAt {
		return bloom.Conflict("the task cannot be leased")
	}
	return nil
}

// grant leases a task to a worker.
func (m *model) grant(t *modelTask, id, worker string) *modelLease {
	now := m.now()
	t.state.Epoch++
	t.state.Attempts++
	l := &modelLease{task: t, Lease: bloom.Lease{
		ID: id, TaskID: t.id, WorkerID: worker, ContextID: &t.context, Epoch: t.state.Epoch, Status: bloom.LeaseActive,
		StartedAt: now, LastHeartbeat: now, ExpiresAt: now + modelTTL*1000, TTLSeconds: modelTTL,
	}}
	t.state.LeaseID, t.state.WorkerID = &l.ID, &l.WorkerID
	t.holder, t.last = l, l
	m.set(t, bloom.TaskLeased)
	return l
}

// beat renews a lease; the first one sets its task running.
func (m *model) beat(l *modelLease) error {
	if l.task.holder != l {
		return bloom.ErrLeaseLost
	}
	l.LastHeartbeat = m.now()
	l.ExpiresAt = m.now() + int64(l.TTLSeconds)*1000
	if l.task.state.Status == bloom.TaskLeased {
		m.set(l.task, bloom.TaskRunning)
	}
	return nil
}

// finish ends a lease with an outcome. One that the reaper expired still counts if nobody was
// given the task since.
func (m *model) finish(l *modelLease, c bloom.Completion) error {
	t := l.task
	expired := l.Status == bloom.LeaseExpired && t.last == l && (t.state.Status == bloom.TaskQueued || t.state.Status == bloom.TaskDead)
	if t.holder != l && !expired {
		return bloom.ErrLeaseLost
	}
	m.end(l, bloom.LeaseReleased)
	t.state.LeaseID, t.state.WorkerID = &l.ID, &l.WorkerID
	switch {
	case c.Status == bloom.OutcomeSuccess:
		t.state.ErrorClass = nil
		m.set(t, bloom.TaskCompleted)
	case t.state.CancelRequested:
		m.fail(t, bloom.TaskCancelled, bloom.ClassCancelled)
	case c.Retryable && t.state.Attempts < t.state.MaxAttempts:
		pause := 5 * time.Second
		for range t.state.Errors {
			pause = min(2*pause, 5*time.Minute)
		}
		t.state.Errors++
		m.queue(t, m.now()+pause.Milliseconds(), &c.ErrorClass)
	default:
		m.fail(t, bloom.TaskFailed, c.ErrorClass)
	}
	return nil
}

// unlease ends a lease without an outcome and refunds its attempt. Repeating it changes nothing.
func (m *model) unlease(l *modelLease, notBefore int64) error {
	t := l.task
	if t.holder != l {
		if t.last == l && l.Status == bloom.LeaseReleased && t.state.Status == bloom.TaskQueued {
			return nil
		}
		return bloom.ErrLeaseLost
	}
	m.end(l, bloom.LeaseReleased)
	t.state.Attempts--
	if t.state.CancelRequested {
		m.fail(t, bloom.TaskCancelled, bloom.ClassCancelled)
	} else {
		m.queue(t, max(notBefore, m.now()), nil)
	}
	return nil
}

// expire is what the reaper does with an overdue lease. It reports whether there was one.
func (m *model) expire(l *modelLease) bool {
	t := l.task
	if t.holder != l || m.now() < l.ExpiresAt {
		return false
	}
	heartbeat := l.LastHeartbeat
	m.end(l, bloom.LeaseExpired)
	l.LastHeartbeat = heartbeat // the reaper hears nothing of the worker
	lost := bloom.ClassWorkerLost
	switch {
	case t.state.CancelRequested:
		m.fail(t, bloom.TaskCancelled, bloom.ClassCancelled)
	case t.state.Attempts == t.state.MaxAttempts:
		m.fail(t, bloom.TaskDead, lost)
	default:
		m.queue(t, m.now(), &lost)
	}
	return true
}

// withdraw cancels a task that nobody holds, and asks the holder of another.
func (m *model) withdraw(t *modelTask) error {
	switch {
	case t.holder != nil:
		if !t.state.CancelRequested {
			t.state.CancelRequested, t.state.UpdatedAt = true, m.now()
		}
	case t.state.Status == bloom.TaskQueued:
		m.fail(t, bloom.TaskCancelled, bloom.ClassCancelled)
	default:
		return bloom.Conflict("the task has ended")
	}
	return nil
}

// again returns an unsuccessful task to the queue as if it were new, except for its epoch.
func (m *model) again(t *modelTask) error {
	if t.holder != nil || t.state.Status == bloom.TaskQueued || t.state.Status == bloom.TaskCompleted {
		return bloom.Conflict("the task has not failed")
	}
	t.last = nil
	t.state = bloom.TaskState{MaxAttempts: t.state.MaxAttempts, Epoch: t.state.Epoch + 1}
	m.queue(t, m.now(), nil)
	return nil
}

func (m *model) end(l *modelLease, status bloom.LeaseStatus) {
	l.Status, l.LastHeartbeat = status, m.now()
	l.task.holder = nil
}

func (m *model) queue(t *modelTask, runAt int64, class *string) {
	t.state.LeaseID, t.state.WorkerID, t.state.RunAt, t.state.ErrorClass = nil, nil, runAt, class
	m.set(t, bloom.TaskQueued)
}

func (m *model) fail(t *modelTask, status bloom.TaskStatus, class string) {
	t.state.ErrorClass = &class
	m.set(t, status)
}

// set changes the status of a task. One that ends opens the next task of its context.
func (m *model) set(t *modelTask, status bloom.TaskStatus) {
	ends := status.Terminal() && !t.state.Status.Terminal()
	t.state.Status, t.state.UpdatedAt, t.queuedAt = status, m.now(), m.now()
	for _, o := range m.tasks {
		if ends && o.ordered && o.context == t.context {
			o.queuedAt = m.now()
		}
	}
}

// reaped counts what became of a lease that the reaper expired.
func reaped(want *contract.Reaped, status bloom.TaskStatus) {
	switch status {
	case bloom.TaskDead:
		want.Dead++
	case bloom.TaskCancelled:
		want.Cancelled++
	default:
		want.Requeued++
	}
}
