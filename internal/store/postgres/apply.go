package postgres

import (
	"slices"

	"github.com/bloom-runtime/bloom"
)

// apply makes what a rule decided about a locked task: the task, its lease, the
// audit and the stream, the counts, and what follows for others of its context.
// was is the lease before, nil when there was none. An ordered task that ends or
// is queued again concerns others of its context: that runs alone.
func (t *tx) apply(tk *task, was *lease, tr bloom.Transition, actor string) error {
	if tr.Noop {
		return nil
	}
	settles := tr.Task.Status.Terminal() || tr.Task.Status == bloom.TaskQueued
	if tk.Policy.Ordered && settles && !t.alone {
		return errAlone
	}
	before := tk.TaskState
	tk.TaskState = tr.Task
	if err := t.applyTask(tk, before); err != nil {
		return err
	}
	t.applyLease(was, tr.Lease)
	t.record(tk, tr, actor)
	if tk.Policy.Ordered && tr.Task.Status.Terminal() {
		return t.openNext(tk.ContextID)
	}
	return nil
}

func (t *tx) applyTask(tk *task, before bloom.TaskState) error {
	after := tk.TaskState
	if before.Same(after) {
		return nil
	}
	t.touchTask(tk)
	if before.Status != after.Status {
		t.counts.move(before.Status, after.Status)
	}
	switch {
	case after.Status == bloom.TaskQueued:
		return t.enqueue(tk, before.Status)
	case before.Status == bloom.TaskQueued:
		tk.gate, tk.preferred, tk.until = "", nil, 0
	}
	return nil
}

func (t *tx) applyLease(was *lease, is bloom.Lease) {
	if is.ID == "" {
		return
	}
	t.wrote = true
	if was == nil {
		t.counts[countLeases]++
		t.counts[countActive]++
		l := &lease{Lease: is, was: is.Status, insert: true}
		t.leases[is.ID], t.active[is.TaskID] = l, l
		t.newLeases = append(t.newLeases, l)
		return
	}
	if was.Status == is.Status && was.ExpiresAt == is.ExpiresAt && was.LastHeartbeat == is.LastHeartbeat {
		return
	}
	if was.Status == bloom.LeaseActive && is.Status != bloom.LeaseActive {
		t.counts[countActive]--
		delete(t.active, is.TaskID)
	}
	was.Lease = is
	if !was.dirty && !was.insert {
		was.dirty = true
		t.moved = append(t.moved, was)
	}
}

// record makes the audit entry and the event of a transition, and tells those
// who wait.
func (t *tx) record(tk *task, tr bloom.Transition, actor string) {
	if tr.Action == "" {
		return
	}
	t.audit(tr.Action, bloom.EntityTask, tk.ID, tr.Actor(actor), tr.Detail, bloom.MustJSON(tk.TaskState.Audit()))
	t.event(tk, event{kind: tr.Event, at: t.now, epoch: tk.Epoch, data: string(tr.EventData())})
	t.tell(tk, tr.Lease.WorkerID)
}

// tell adds a task's present state to what subscribers hear after the commit.
func (t *tx) tell(tk *task, workerID string) {
	c := bloom.TaskChange(tk.ID, tk.TaskState, workerID)
	if c.TaskStatus == bloom.TaskQueued && len(tk.Labels) > 0 {
		c.Labels = slices.Clone(tk.Labels)
	}
	t.changes = append(t.changes, c)
}
