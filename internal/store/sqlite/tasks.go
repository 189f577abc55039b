package sqlite

import (
	"cmp"
	"context"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// CreateTask queues a task.
func (s *Store) CreateTask(ctx context.Context, n bloom.NewTask) (bloom.Task, bool, error) {
	type answer struct {
		task     bloom.Task
		replayed bool
	}
	a, err := write(ctx, s, func(t *tx) (a answer, err error) {
		a.task, a.replayed, err = t.create(n)
		return a, err
	})
	return a.task, a.replayed, err
}

func (t *tx) create(n bloom.NewTask) (bloom.Task, bool, error) {
	f := new(n.Task(t.now))
	tk := task{id: f.ID, contextID: f.ContextID, ordered: f.Policy.Ordered, labels: f.Labels, state: f.TaskState, full: f}
	if f.IdempotencyKey != nil {
		first, ok, err := t.keyed(n.IdempotencyScope, *f.IdempotencyKey, n.BodyHash)
		if err != nil || ok {
			return first, ok, err
		}
	}
	seq, err := t.number(`SELECT COALESCE(MAX(seq), 0) + 1 FROM llm_tasks`)
	if err != nil {
		return bloom.Task{}, false, err
	}
	tk.seq = seq
	gate, err := t.gate(&tk)
	if err != nil {
		return bloom.Task{}, false, err
	}
	worker, until, err := t.prefer(&tk, gate)
	if err != nil {
		return bloom.Task{}, false, err
	}
	var scope *string
	if f.IdempotencyKey != nil {
		scope = &n.IdempotencyScope
	}
	made, err := t.put(`INSERT INTO llm_tasks (seq, id, status, gate, updated_at, attempts, max_attempts, run_at, epoch, ordered, priority, label_key,
			preferred_worker, preferred_until, context_id, agent_slug, created_at, desired_format, timeout_sec, budget, labels,
			idempotency_scope, idempotency_key, body_hash, context_hints, prompt)
		VALUES (?,?,'queued',?,?,0,?,?,0,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`,
		seq, f.ID, gate, f.UpdatedAt, f.MaxAttempts, f.RunAt, tk.ordered, f.Priority, schema.LabelKey(f.Labels),
		worker, until, f.ContextID, f.AgentSlug, f.CreatedAt, f.DesiredFormat, f.Policy.TimeoutSec, f.Policy.Budget, schema.ListJSON(f.Labels),
		scope, f.IdempotencyKey, n.BodyHash, schema.ListJSON(f.ContextHints), f.Prompt)
	if err != nil {
		return bloom.Task{}, false, err
	}
	if made == 0 {
		t.wrote = false // the conflict left everything as it was
		first, err := t.task(f.ID)
		if err != nil {
			return bloom.Task{}, false, err
		}
		return first.whole(), true, nil
	}
	t.moved("", bloom.TaskQueued)
	t.mem.keep(tk, bloom.Lease{})
	err = t.record(&tk, bloom.Created(*f), n.Actor)
	return tk.whole(), false, err
}

// keyed finds the task that first used an idempotency key.
func (t *tx) keyed(scope, key, bodyHash string) (first bloom.Task, ok bool, err error) {
	r, ok, err := t.one(`SELECT id, body_hash FROM llm_tasks WHERE idempotency_scope = ? AND idempotency_key = ?`, scope, key)
	if err != nil || !ok {
		return first, false, err
	}
	if r.str(1) != bodyHash {
		return first, true, bloom.ErrIdempotency
	}
	tk, err := t.task(r.str(0))
	if err != nil {
		return first, false, err
	}
	return tk.whole(), true, nil
}

// Task reads one task.
func (s *Store) Task(ctx context.Context, id string) (bloom.Task, error) {
	return read(ctx, s, func(c *conn) (bloom.Task, error) {
		tk, err := c.task(id)
		if err != nil {
			return bloom.Task{}, err
		}
		return tk.whole(), nil
	})
}

// Cancel calls a task off.
func (s *Store) Cancel(ctx context.Context, id, actor string) (bloom.Task, error) {
	return s.move(ctx, id, actor, func(t *tx, st bloom.TaskState) (bloom.Transition, error) { return bloom.Cancel(st, t.now) })
}

// Requeue puts an ended task back by hand.
func (s *Store) Requeue(ctx context.Context, id, actor string) (bloom.Task, error) {
	return s.move(ctx, id, actor, func(t *tx, st bloom.TaskState) (bloom.Transition, error) { return bloom.Requeue(st, t.now) })
}

// move applies a rule that concerns no lease.
func (s *Store) move(ctx context.Context, id, actor string, rule func(*tx, bloom.TaskState) (bloom.Transition, error)) (bloom.Task, error) {
	return write(ctx, s, func(t *tx) (bloom.Task, error) {
		tk, err := t.task(id)
		if err != nil {
			return bloom.Task{}, err
		}
		tr, err := rule(t, tk.state)
		if err != nil {
			return bloom.Task{}, err
		}
		err = t.apply(&tk, bloom.Lease{}, tr, actor)
		return tk.whole(), err
	})
}

// AppendEvents adds a worker's events to a task's stream.
func (s *Store) AppendEvents(ctx context.Context, taskID, leaseID string, events []bloom.WorkerEvent) (int64, error) {
	return write(ctx, s, func(t *tx) (int64, error) {
		tk, l, err := t.named(taskID, leaseID, (*tx).taskState)
		if err != nil {
			return 0, err
		}
		if _, err := bloom.Beat(tk.state, l, t.now); err != nil {
			return 0, err
		}
		added := int64(0)
		for _, e := range events {
			n, err := t.put(insertEvent, tk.seq, bloom.CleanText(e.Type), cmp.Or(e.At, t.now), l.Epoch, e.Seq, bloom.EventData(e.Data))
			if err != nil {
				return 0, err
			}
			added += n
		}
		if added > 0 {
			t.changes = append(t.changes, bloom.Change{Kind: bloom.ChangeEvents, TaskID: taskID, WorkerID: l.WorkerID})
		}
		return t.number(`SELECT MAX(seq) FROM task_events WHERE task = ?`, tk.seq)
	})
}

// Events lists a task's stream after the given number.
func (s *Store) Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error) {
	return read(ctx, s, func(c *conn) ([]bloom.Event, error) {
		r, ok, err := c.one(`SELECT seq FROM llm_tasks WHERE id = ?`, taskID)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, bloom.ErrTaskNotFound
		}
		events, size := []bloom.Event{}, 0
		err = c.each(`SELECT seq, type, at, epoch, data FROM task_events WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?`, func(r row) error {
			events = append(events, bloom.Event{Seq: r.int(0), Type: r.str(1), At: r.int(2), Epoch: r.int(3), Data: []byte(r.str(4))})
			if size += len(r.str(4)); size >= bloom.MaxEventPageBytes {
				return errStop
			}
			return nil
		}, r.int(0), after, bloom.Page{Limit: limit}.Size())
		return events, err
	})
}

// Results lists a task's results, newest first.
func (s *Store) Results(ctx context.Context, taskID string) ([]bloom.Result, error) {
	return read(ctx, s, func(c *conn) ([]bloom.Result, error) {
		if _, err := c.taskState(taskID); err != nil {
			return nil, err
		}
		const from = ` FROM llm_results r JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE r.task_id = ? ORDER BY r.epoch DESC LIMIT ? OFFSET ?`
		newest, err := collect(c, scanResult, `SELECT `+resultColumns+from, taskID, bloom.ResultsWithOutput, 0)
		if err != nil || len(newest) < bloom.ResultsWithOutput {
			return newest, err
		}
		older, err := collect(c, scanResult, `SELECT `+strings.Replace(resultColumns, "a.content", "NULL", 1)+from, taskID, bloom.MaxPageSize, len(newest))
		return append(newest, older...), err
	})
}
