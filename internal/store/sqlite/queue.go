package sqlite

import (
	"errors"

	"github.com/bloom-runtime/bloom"
)

// errMissed is a compare-and-set that found another state than the one read in
// the same transaction: a defect, never a race.
var errMissed = errors.New("sqlite: compare-and-set missed")

// enqueue writes a task that has just become queued: behind which gate it
// waits, and whom it prefers.
func (t *tx) enqueue(tk *task, before bloom.TaskState) error {
	gate, err := t.gate(tk)
	if err != nil {
		return err
	}
	worker, until, err := t.prefer(tk, gate)
	if err != nil {
		return err
	}
	s := tk.state
	err = t.set(`UPDATE llm_tasks SET status = ?, updated_at = ?, lease_id = ?, worker_id = ?, attempts = ?, run_at = ?, error_class = ?,
		cancel_requested = ?, gate = ?, preferred_worker = ?, preferred_until = ? WHERE seq = ? AND status = ? AND epoch = ?`,
		s.Status, s.UpdatedAt, s.LeaseID, s.WorkerID, s.Attempts, s.RunAt, s.ErrorClass, s.CancelRequested,
		gate, worker, until, tk.seq, before.Status, before.Epoch)
	if err != nil || !tk.ordered || !before.Status.Terminal() {
		return err
	}
	return t.closeLater(tk)
}

func (t *tx) gate(tk *task) (bloom.Gate, error) {
	blocked := false
	if tk.ordered {
		var err error
		if blocked, err = t.blocked(tk.contextID, tk.seq); err != nil {
			return "", err
		}
	}
	return bloom.OrderGate(tk.state, blocked, t.now), nil
}

// blocked reports whether an ordered task of the context that is earlier than
// seq has not ended.
func (t *tx) blocked(contextID string, seq int64) (bool, error) {
	_, ok, err := t.one(`SELECT 1 FROM llm_tasks WHERE context_id = ? AND seq < ? AND ordered = 1 AND status IN ('queued','leased','running') LIMIT 1`, contextID, seq)
	return ok, err
}

// closeLater puts the gate before a later ordered task that was open because
// this one, now back in the queue, had ended. At most one can be.
func (t *tx) closeLater(tk *task) error {
	_, err := t.put(`UPDATE llm_tasks SET gate = 'ordered', preferred_worker = NULL, preferred_until = 0
		WHERE context_id = ? AND seq > ? AND ordered = 1 AND status = 'queued' AND gate <> 'ordered'`, tk.contextID, tk.seq)
	return err
}

// openNext opens the gate of the ordered task whose turn has come, in the
// transaction in which its predecessor ended.
func (t *tx) openNext(contextID string) error {
	r, ok, err := t.one(`SELECT `+stateColumns+`, t.gate FROM llm_tasks t
		WHERE t.context_id = ? AND t.ordered = 1 AND t.status IN ('queued','leased','running') ORDER BY t.seq LIMIT 1`, contextID)
	if err != nil || !ok || bloom.Gate(r.str(stateWidth)) != bloom.GateOrdered {
		return err
	}
	next := scanState(r)
	return t.open(&next, bloom.OrderGate(next.state, false, t.now))
}

// open moves a queued task behind another gate.
func (t *tx) open(tk *task, gate bloom.Gate) error {
	worker, until, err := t.prefer(tk, gate)
	if err != nil {
		return err
	}
	t.tell(tk, "")
	return t.set(`UPDATE llm_tasks SET gate = ?, preferred_worker = ?, preferred_until = ? WHERE seq = ? AND status = 'queued'`, gate, worker, until, tk.seq)
}

// openBatch is how many delayed tasks one claim opens at most.
const openBatch = 100

// openDue opens delayed tasks whose time has come.
func (t *tx) openDue() error {
	due, err := collect(t.conn, scanState, `SELECT `+stateColumns+` FROM llm_tasks t INDEXED BY llm_tasks_delayed
		WHERE t.status = 'queued' AND t.gate = 'delayed' AND t.run_at <= ? ORDER BY t.run_at LIMIT ?`, t.now, openBatch)
	for i := 0; err == nil && i < len(due); i++ {
		err = t.open(&due[i], bloom.GateOpen)
	}
	return err
}

// prefer names the worker that last held the context if it could take the task,
// and until when the others pass the task by. Tasks that already wait for it
// take its room, so that what others must pass over stays bounded.
func (t *tx) prefer(tk *task, gate bloom.Gate) (worker *string, until int64, err error) {
	if gate != bloom.GateOpen {
		return nil, 0, nil
	}
	r, ok, err := t.one(`SELECT worker_id FROM leases INDEXED BY leases_context WHERE context_id = ? ORDER BY seq DESC LIMIT 1`, tk.contextID)
	if err != nil || !ok {
		return nil, 0, err
	}
	last, err := t.worker(r.str(0))
	switch {
	case isNotFound(err):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	case !last.CanTake(tk.labels):
		return nil, 0, nil
	}
	waiting, err := t.number(`SELECT COUNT(*) FROM llm_tasks WHERE preferred_worker = ? AND preferred_until > ? AND status = 'queued'`, last.ID, t.now)
	if err != nil || waiting >= int64(last.Free()) {
		return nil, 0, err
	}
	return &last.ID, t.now + bloom.StickyGrace.Milliseconds(), nil
}
