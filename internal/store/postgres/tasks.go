package postgres

import (
	"context"
	"math"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// CreateTask queues a task.
func (s *Store) CreateTask(ctx context.Context, n bloom.NewTask) (bloom.Task, bool, error) {
	if !isID(n.ID) {
		return bloom.Task{}, false, bloom.Invalid("The task's id must be a UUID")
	}
	type answer struct {
		task     bloom.Task
		replayed bool
	}
	n.BodyHash = bloom.CleanText(n.BodyHash)
	key := idemKey{bloom.CleanText(n.IdempotencyScope), bloom.CleanText(n.Spec.IdempotencyKey)}
	contextID := bloom.CleanText(n.Spec.ContextID)
	need := func(w *want) {
		w.newborn = append(w.newborn, n.ID)
		if key.key != "" {
			w.keys = append(w.keys, key)
		}
		if n.Spec.Policy.Ordered {
			w.lockContexts = append(w.lockContexts, contextID)
		}
	}
	a, err := together(ctx, s.lane, need, func(t *tx) (a answer, err error) {
		a.task, a.replayed, err = t.create(n, key)
		return a, err
	})
	return a.task, a.replayed, err
}

func (t *tx) create(n bloom.NewTask, key idemKey) (bloom.Task, bool, error) {
	if first, ok := t.keyed[key]; ok && key.key != "" {
		if first.bodyHash != n.BodyHash {
			return bloom.Task{}, false, bloom.ErrIdempotency
		}
		return t.addTask(first.task).Task, true, nil
	}
	if first, ok := t.tasks[n.ID]; ok {
		return first.Task, true, nil
	}
	if n.Spec.Policy.Ordered && !t.alone {
		return bloom.Task{}, false, errAlone
	}
	tk := &task{Task: n.Task(t.now), whole: true, insert: &insertion{bodyHash: n.BodyHash}, labelKey: schema.LabelKey(n.Spec.Labels)}
	tk.seq = math.MaxInt64 // it comes after all others; the insert gives it its number
	if err := t.enqueue(tk, ""); err != nil {
		return bloom.Task{}, false, err
	}
	if key.key != "" {
		tk.insert.scope = &key.scope
		t.keyed[key] = keyed{task: tk, bodyHash: n.BodyHash}
	}
	t.tasks[tk.ID] = tk
	t.newTasks = append(t.newTasks, tk)
	t.counts.move("", bloom.TaskQueued)
	t.record(tk, bloom.Created(tk.Task), n.Actor)
	return tk.Task, false, nil
}

// Task reads one task.
func (s *Store) Task(ctx context.Context, id string) (bloom.Task, error) {
	if !isID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return read(ctx, s, func(c reader) (bloom.Task, error) {
		tk, err := found(ctx, c, scanTask, bloom.ErrTaskNotFound, `SELECT `+taskColumns+` FROM llm_tasks t WHERE t.id = $1`, id)
		if err != nil {
			return bloom.Task{}, err
		}
		return tk.Task, nil
	})
}

// Cancel calls a task off.
func (s *Store) Cancel(ctx context.Context, id, actor string) (bloom.Task, error) {
	return s.move(ctx, id, actor, bloom.Cancel)
}

// Requeue puts an ended task back by hand.
func (s *Store) Requeue(ctx context.Context, id, actor string) (bloom.Task, error) {
	return s.move(ctx, id, actor, bloom.Requeue)
}

// move applies a rule that concerns no lease.
func (s *Store) move(ctx context.Context, id, actor string, rule func(bloom.TaskState, int64) (bloom.Transition, error)) (bloom.Task, error) {
	need := func(w *want) { w.whole = append(w.whole, id) }
	return separately(ctx, s, need, func(t *tx) (bloom.Task, error) {
		tk, err := t.task(id)
		if err != nil {
			return bloom.Task{}, err
		}
		tr, err := rule(tk.TaskState, t.now)
		if err != nil {
			return bloom.Task{}, err
		}
		err = t.apply(tk, nil, tr, actor)
		return tk.Task, err
	})
}

// Results lists a task's results, newest first.
func (s *Store) Results(ctx context.Context, taskID string) ([]bloom.Result, error) {
	return ofTask(ctx, s, taskID, func(c reader, _ int64) ([]bloom.Result, error) {
		const from = ` FROM llm_results r JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE r.task_id = $1 ORDER BY r.epoch DESC LIMIT $2 OFFSET $3`
		newest, err := collect(ctx, c, scanResult, `SELECT `+resultColumns+from, taskID, bloom.ResultsWithOutput, 0)
		if err != nil || len(newest) < bloom.ResultsWithOutput {
			return newest, err
		}
		older, err := collect(ctx, c, scanResult, `SELECT `+strings.Replace(resultColumns, "a.content", "NULL::text", 1)+from, taskID, bloom.MaxPageSize, len(newest))
		return append(newest, older...), err
	})
}

// ofTask reads what belongs to a task, ErrTaskNotFound when there is no such
// task.
func ofTask[T any](ctx context.Context, s *Store, taskID string, list func(c reader, seq int64) ([]T, error)) ([]T, error) {
	if !isID(taskID) {
		return nil, bloom.ErrTaskNotFound
	}
	return read(ctx, s, func(c reader) ([]T, error) {
		seqs, err := collect(ctx, c, scanInt, `SELECT seq FROM llm_tasks WHERE id = $1`, taskID)
		switch {
		case err != nil:
			return nil, err
		case len(seqs) == 0:
			return nil, bloom.ErrTaskNotFound
		}
		return list(c, seqs[0])
	})
}
