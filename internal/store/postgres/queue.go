package postgres

import (
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/group"
)

// enqueue places a task that has just become queued: behind which gate it waits,
// and whom it prefers. before is the status it comes from, "" for a new task.
func (t *tx) enqueue(tk *task, before bloom.TaskStatus) error {
	blocked := false
	if tk.Policy.Ordered {
		var err error
		if blocked, err = t.blocked(tk); err != nil {
			return err
		}
	}
	t.open(tk, bloom.OrderGate(tk.TaskState, blocked, t.now))
	if !tk.Policy.Ordered || !before.Terminal() {
		return nil
	}
	return t.closeLater(tk)
}

// open puts a queued task behind a gate. Whom one that is open prefers is found
// out when it is written.
func (t *tx) open(tk *task, gate bloom.Gate) {
	t.touchTask(tk)
	tk.gate, tk.preferred, tk.until = gate, nil, 0
	if gate == bloom.GateOpen {
		t.opened = append(t.opened, tk.ID)
	}
}

// ended are the ordered tasks of this transaction that no longer hold up others,
// which the database does not know yet.
func (t *tx) ended() []int64 {
	seqs := []int64{}
	for _, tk := range t.tasks {
		if tk.Policy.Ordered && tk.Status.Terminal() {
			seqs = append(seqs, tk.seq)
		}
	}
	return seqs
}

// blocked reports whether an ordered task of the context that is earlier has not
// ended. The context is locked.
func (t *tx) blocked(tk *task) (blocked bool, err error) {
	for _, o := range t.tasks {
		if o.Policy.Ordered && o.ContextID == tk.ContextID && o.seq < tk.seq && !o.Status.Terminal() {
			return true, nil
		}
	}
	err = t.c.QueryRow(t.ctx, `SELECT EXISTS (SELECT FROM llm_tasks WHERE context_id = $1 AND seq < $2 AND pending AND seq <> ALL($3::bigint[]))`,
		tk.ContextID, tk.seq, t.ended()).Scan(&blocked)
	return blocked, err
}

// closeLater puts the gate before a later ordered task that was open because this
// one, now back in the queue, had ended. At most one can be.
func (t *tx) closeLater(tk *task) error {
	_, err := t.c.Exec(t.ctx, `UPDATE llm_tasks SET gate = 'ordered', preferred_worker = NULL, preferred_until = 0
		WHERE context_id = $1 AND seq > $2 AND pending AND gate IN ('open', 'delayed')`, tk.ContextID, tk.seq)
	return err
}

// openNext opens the gate of the ordered task whose turn has come, in the
// transaction in which its predecessor ended. The context is locked.
func (t *tx) openNext(contextID string) error {
	next, err := collect(t.ctx, t.c, scanLocked, `SELECT t.xmin, `+taskColumns+` FROM llm_tasks t
		WHERE t.context_id = $1 AND t.pending AND t.seq <> ALL($2::bigint[]) ORDER BY t.seq LIMIT 1 FOR UPDATE`, contextID, t.ended())
	if err != nil || len(next) == 0 {
		return err
	}
	tk := t.addTask(next[0])
	if tk.gate != bloom.GateOrdered {
		return nil
	}
	t.open(tk, bloom.OrderGate(tk.TaskState, false, t.now))
	t.tell(tk, "")
	return nil
}

// openBatch is how many delayed tasks are opened at once.
const openBatch = 100

// openDue opens delayed tasks whose time has come.
func (s *Store) openDue() error {
	o := &op{at: time.Now(), need: func(*want) {}, Op: group.NewOp(func(t *tx) error {
		due, err := collect(t.ctx, t.c, scanLocked, `SELECT t.xmin, `+taskColumns+` FROM llm_tasks t
			WHERE t.gate = 'delayed' AND t.run_at <= $1 ORDER BY t.run_at LIMIT $2 FOR UPDATE SKIP LOCKED`, t.now, openBatch)
		for _, tk := range due {
			tk = t.addTask(tk)
			t.open(tk, bloom.GateOpen)
			t.tell(tk, "")
		}
		return err
	})}
	changes, err := s.persist([]*op{o}, nil)
	if err != nil {
		return err
	}
	s.lane.known.heard(changes)
	s.publish(changes)
	return o.Err
}
