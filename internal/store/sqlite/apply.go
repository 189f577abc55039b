package sqlite

import (
	"slices"

	"github.com/bloom-runtime/bloom"
)

// apply writes what a rule decided about a task that was read in this
// transaction: the task, its lease, the audit and the stream, the counts, and
// what follows for others of its context. was is the lease before, the zero
// Lease when there was none. tk is left in the state after.
func (t *tx) apply(tk *task, was bloom.Lease, tr bloom.Transition, actor string) error {
	if tr.Noop {
		return nil
	}
	before := tk.state
	tk.state = tr.Task
	if err := t.applyTask(tk, before); err != nil {
		return err
	}
	if err := t.applyLease(was, tr.Lease); err != nil {
		return err
	}
	if err := t.record(tk, tr, actor); err != nil {
		return err
	}
	t.mem.keep(*tk, tr.Lease)
	if tk.ordered && tr.Task.Status.Terminal() {
		return t.openNext(tk.contextID)
	}
	return nil
}

func (t *tx) applyTask(tk *task, before bloom.TaskState) error {
	after := tk.state
	if before.Same(after) {
		return nil
	}
	t.moved(before.Status, after.Status)
	switch {
	case after.Status == bloom.TaskQueued:
		return t.enqueue(tk, before)
	case before.Status == bloom.TaskQueued:
		return t.set(`UPDATE llm_tasks SET status = ?, updated_at = ?, lease_id = ?, worker_id = ?, attempts = ?, error_class = ?, epoch = ?,
			gate = NULL, preferred_worker = NULL, preferred_until = 0 WHERE seq = ? AND status = ? AND epoch = ?`,
			after.Status, after.UpdatedAt, after.LeaseID, after.WorkerID, after.Attempts, after.ErrorClass, after.Epoch,
			tk.seq, before.Status, before.Epoch)
	}
	// While it is held and when it ends, the columns of the queue's indexes stay
	// as they are.
	return t.set(`UPDATE llm_tasks SET status = ?, updated_at = ?, attempts = ?, error_class = ?, cancel_requested = ?
		WHERE seq = ? AND status = ? AND epoch = ?`,
		after.Status, after.UpdatedAt, after.Attempts, after.ErrorClass, after.CancelRequested, tk.seq, before.Status, before.Epoch)
}

// set is a compare-and-set of one row. In the writer's transaction it cannot
// miss; if it ever does, nothing of the operation may stand.
func (t *tx) set(query string, args ...any) error {
	n, err := t.put(query, args...)
	if err == nil && n != 1 {
		err = errMissed
	}
	return err
}

func (t *tx) applyLease(was, is bloom.Lease) error {
	switch {
	case is.ID == "":
		return nil
	case was.ID == "":
		t.counts.leases++
		t.counts.active++
		t.mem.leased(is, 1)
		_, err := t.put(`INSERT INTO leases (id, task_id, worker_id, epoch, status, started_at, expires_at, ttl_seconds, last_heartbeat, context_id)
			VALUES (?,?,?,?,?,?,?,?,?,?)`,
			is.ID, is.TaskID, is.WorkerID, is.Epoch, is.Status, is.StartedAt, is.ExpiresAt, is.TTLSeconds, is.LastHeartbeat, is.ContextID)
		return err
	case was.Status != is.Status:
		if was.Status == bloom.LeaseActive {
			t.counts.active--
			t.mem.leased(was, -1)
		}
		return t.set(`UPDATE leases SET status = ? WHERE id = ? AND status = ? AND epoch = ?`, is.Status, is.ID, was.Status, was.Epoch)
	case was.ExpiresAt != is.ExpiresAt || was.LastHeartbeat != is.LastHeartbeat:
		return t.set(`UPDATE leases SET expires_at = ?, last_heartbeat = ? WHERE id = ? AND status = 'active' AND epoch = ?`,
			is.ExpiresAt, is.LastHeartbeat, is.ID, is.Epoch)
	}
	return nil
}

// record writes the audit entry and the event of a transition, and tells those
// who wait.
func (t *tx) record(tk *task, tr bloom.Transition, actor string) error {
	if tr.Action == "" {
		return nil
	}
	t.audit(tr.Action, bloom.EntityTask, tk.id, tr.Actor(actor), tr.Detail, bloom.MustJSON(tk.state.Audit()))
	if err := t.event(tk.seq, tr.Event, tk.state.Epoch, tr.EventData()); err != nil {
		return err
	}
	t.tell(tk, tr.Lease.WorkerID)
	return nil
}

// tell adds a task's present state to what subscribers hear after the commit.
func (t *tx) tell(tk *task, workerID string) {
	c := bloom.TaskChange(tk.id, tk.state, workerID)
	if c.TaskStatus == bloom.TaskQueued && len(tk.labels) > 0 {
		c.Labels = slices.Clone(tk.labels)
	}
	t.changes = append(t.changes, c)
}
