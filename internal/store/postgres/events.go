package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

// AppendEvents adds a worker's events to a task's stream.
func (s *Store) AppendEvents(ctx context.Context, taskID, leaseID string, events []bloom.WorkerEvent) (int64, error) {
	need := func(w *want) {
		w.tasks = append(w.tasks, taskID)
		w.leases = append(w.leases, leaseID)
		for _, e := range events {
			w.events = append(w.events, eventKey{taskID, e.Seq})
		}
	}
	return together(ctx, s.lane, need, func(t *tx) (int64, error) {
		tk, l, err := t.named(taskID, leaseID)
		if err != nil {
			return 0, err
		}
		if _, err := bloom.Beat(tk.TaskState, l.Lease, t.now); err != nil {
			return 0, err
		}
		added := false
		for _, e := range events {
			key := eventKey{taskID, e.Seq}
			if t.repeats[key] {
				continue
			}
			t.repeats[key], added = true, true
			seq := e.Seq
			t.event(tk, event{
				kind: bloom.CleanText(e.Type), at: cmp.Or(e.At, t.now), epoch: l.Epoch, workerSeq: &seq, data: string(bloom.EventData(e.Data)),
			})
		}
		if added {
			t.changes = append(t.changes, bloom.Change{Kind: bloom.ChangeEvents, TaskID: taskID, WorkerID: l.WorkerID})
		}
		return tk.lastEvent, nil
	})
}

// Events lists a task's stream after the given number.
func (s *Store) Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error) {
	return ofTask(ctx, s, taskID, func(c reader, seq int64) ([]bloom.Event, error) {
		return collect(ctx, c, func(r pgx.Rows) (e bloom.Event, err error) {
			var data string
			err = r.Scan(&e.Seq, &e.Type, &e.At, &e.Epoch, &data)
			e.Data = []byte(data)
			return e, err
		}, `SELECT seq, type, at, epoch, data FROM (
				SELECT e.*, sum(octet_length(e.data)) OVER (ORDER BY e.seq) - octet_length(e.data) AS before FROM (
					SELECT seq, type, at, epoch, data FROM task_events WHERE task = $1 AND seq > $2 ORDER BY seq LIMIT $3) e) b
			WHERE before < $4 ORDER BY seq`, seq, after, bloom.Page{Limit: limit}.Size(), bloom.MaxEventPageBytes)
	})
}
