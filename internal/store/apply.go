package store

import (
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// count updates the number of tasks by status, and the time series.
func (u *Unit) count(from, to bloom.TaskStatus) {
	if from != "" {
		u.c.Counts[slices.Index(bloom.TaskStatuses, from)]--
	}
	if to != "" {
		u.c.Counts[slices.Index(bloom.TaskStatuses, to)]++
	}
	u.addToSeries(from, to)
}

// apply records a transition: the task, its lease, the audit entry, the event, the
// counters, and the effects on other tasks of its context. l is nil if the transition
// concerns no lease or a new one.
func (u *Unit) apply(t *Task, l *bloom.Lease, tr lifecycle.Transition, actor string) error {
	if tr.Noop {
		return nil
	}
	before := t.TaskState
	t.TaskState = tr.Task
	if err := u.applyTask(t, before); err != nil {
		return err
	}
	if l != nil && tr.Lease.Status != bloom.LeaseActive {
		u.countUsage(t, *l, tr.Lease.Usage)
	}
	u.applyLease(l, tr.Lease)
	u.updateContext(t, before, l == nil && tr.Lease.ID != "")
	if err := u.approvalEnded(t, before, tr.Actor(actor)); err != nil {
		return err
	}
	u.record(t, tr, actor)
	if t.Policy.Ordered && tr.Task.Status.Terminal() {
		return u.openNext(t.ContextID)
	}
	return nil
}

func (u *Unit) applyTask(t *Task, before bloom.TaskState) error {
	if lifecycle.Same(before, t.TaskState) {
		return nil
	}
	tasks.put(u, t.ID, t)
	if before.Status != t.Status {
		u.count(before.Status, t.Status)
		if u.s.cfg.Transcripts && t.Status.Terminal() {
			u.stream(t).Due = true
		}
	}
	switch {
	case t.Status == bloom.TaskQueued:
		return u.enqueue(t, before.Status)
	case before.Status == bloom.TaskQueued:
		t.Gate, t.Preferred, t.Until = "", nil, 0
	}
	return nil
}

func (u *Unit) applyLease(l *bloom.Lease, is bloom.Lease) {
	if is.ID == "" {
		return
	}
	if l == nil {
		leases.put(u, is.ID, &is)
		active.set(u, is.TaskID, is.ID)
		u.c.Counts[CountLeases]++
		u.c.Counts[CountActive]++
		u.load[is.WorkerID]++
		return
	}
	if l.Status == is.Status && l.ExpiresAt == is.ExpiresAt && l.LastHeartbeat == is.LastHeartbeat && l.Usage == is.Usage {
		return
	}
	if l.Status == bloom.LeaseActive && is.Status != bloom.LeaseActive {
		u.c.Counts[CountActive]--
		u.load[is.WorkerID]--
		active.set(u, is.TaskID, "")
	}
	*l = is
	leases.put(u, is.ID, l)
}

// record adds a transition's audit entry and event, and notifies subscribers.
func (u *Unit) record(t *Task, tr lifecycle.Transition, actor string) {
	if tr.Action == "" {
		return
	}
	u.audit(tr.Action, audit.EntityTask, t.ID, tr.Actor(actor), tr.Detail, storable.MustJSON(lifecycle.Audited(t.TaskState)))
	u.event(t, Event{Type: tr.Event, At: u.Now, Epoch: t.Epoch, Data: tr.EventData()})
	u.notifyTask(t, tr.Lease.WorkerID)
}
