package sqlite

import (
	"context"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store"
)

// Task reads one task.
func (d *database) Task(ctx context.Context, id string) (bloom.Task, error) {
	return read(ctx, d, func(c *conn) (bloom.Task, error) {
		t, err := found(c, scanWhole, bloom.ErrTaskNotFound, `SELECT `+wholeColumns+` FROM llm_tasks t WHERE t.id = ?`, id)
		return t.Task, err
	})
}

// QueuePlace reads what decides a queued task's turn.
func (d *database) QueuePlace(ctx context.Context, id string) (bloom.QueuePlace, error) {
	return read(ctx, d, func(c *conn) (bloom.QueuePlace, error) {
		return found(c, func(r row) bloom.QueuePlace {
			return bloom.QueuePlace{Before: r.str(0), Preferred: r.str(1), Until: r.int(2), Gate: bloom.Gate(r.str(3))}
		}, bloom.ErrTaskNotFound, `SELECT (SELECT o.id FROM llm_tasks o WHERE t.ordered = 1 AND o.context_id = t.context_id AND o.seq < t.seq
				AND o.ordered = 1 AND o.status IN ('queued','leased','running') ORDER BY o.seq LIMIT 1),
			t.preferred_worker, t.preferred_until, t.gate FROM llm_tasks t WHERE t.id = ?`, id)
	})
}

// seqOf is the number of a task, ErrTaskNotFound when there is no such task.
func seqOf(c *conn, taskID string) (int64, error) {
	return found(c, func(r row) int64 { return r.int(0) }, bloom.ErrTaskNotFound, `SELECT seq FROM llm_tasks WHERE id = ?`, taskID)
}

// Events lists a task's stream after the given number.
func (d *database) Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error) {
	return read(ctx, d, func(c *conn) ([]bloom.Event, error) {
		seq, err := seqOf(c, taskID)
		if err != nil {
			return nil, err
		}
		events, size := []bloom.Event{}, 0
		err = c.each(`SELECT seq, type, at, epoch, data FROM task_events WHERE task = ? AND seq > ? ORDER BY seq LIMIT +?`, func(r row) error {
			events = append(events, bloom.Event{Seq: r.int(0), Type: r.str(1), At: r.int(2), Epoch: r.int(3), Data: []byte(r.str(4))})
			if size += len(r.str(4)); size >= bloom.MaxEventPageBytes {
				return errStop
			}
			return nil
		}, seq, after, bloom.Page{Limit: limit}.Size())
		return events, err
	})
}

// Results lists a task's results, newest first.
func (d *database) Results(ctx context.Context, taskID string) ([]bloom.Result, error) {
	return read(ctx, d, func(c *conn) ([]bloom.Result, error) {
		if _, err := seqOf(c, taskID); err != nil {
			return nil, err
		}
		const from = ` FROM llm_results r JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE r.task_id = ? ORDER BY r.epoch DESC LIMIT +? OFFSET +?`
		newest, err := collect(c, scanResult, `SELECT `+resultColumns+from, taskID, bloom.ResultsWithOutput, 0)
		if err != nil || len(newest) < bloom.ResultsWithOutput {
			return newest, err
		}
		older, err := collect(c, scanResult, `SELECT `+strings.Replace(resultColumns, "a.content", "NULL", 1)+from, taskID, bloom.MaxPageSize, len(newest))
		return append(newest, older...), err
	})
}

// Lease is one lease of a task.
func (d *database) Lease(ctx context.Context, taskID, leaseID string) (bloom.Lease, error) {
	return read(ctx, d, func(c *conn) (bloom.Lease, error) {
		return found(c, scanLease, bloom.ErrLeaseLost, `SELECT `+leaseColumns+` FROM leases l WHERE l.id = ? AND l.task_id = ?`, leaseID, taskID)
	})
}

// Stats reads the counters; only the workers, who are few, are counted.
func (d *database) Stats(ctx context.Context) (bloom.Stats, error) {
	return read(ctx, d, func(c *conn) (bloom.Stats, error) {
		st := bloom.Stats{Tasks: bloom.TaskStats{ByStatus: map[bloom.TaskStatus]int64{}}}
		r, _, err := c.one(`SELECT queued, leased, running, completed, failed, dead, cancelled, leases, active FROM counters`)
		if err != nil {
			return st, err
		}
		for i, status := range bloom.TaskStatuses {
			if n := r.int(i); n != 0 {
				st.Tasks.ByStatus[status] = n
				st.Tasks.Total += n
			}
		}
		st.Leases = bloom.LeaseStats{Total: r.int(store.CountLeases), Active: r.int(store.CountActive)}
		r, _, err = c.one(`SELECT COUNT(*), COALESCE(SUM(status = 'online'), 0) FROM workers WHERE removed = 0`)
		if err == nil {
			st.Workers = bloom.WorkerStats{Total: r.int(0), Online: r.int(1)}
		}
		return st, err
	})
}

func (c *conn) workers(where string) ([]bloom.Worker, error) {
	return collect(c, func(r row) bloom.Worker { return scanWorker(r).Worker }, `SELECT `+workerColumns+`, `+countHeld+` FROM workers w `+where)
}

// Worker reads a worker and the leases it holds.
func (d *database) Worker(ctx context.Context, id string) (bloom.Worker, []bloom.Lease, error) {
	type answer struct {
		worker bloom.Worker
		leases []bloom.Lease
	}
	a, err := read(ctx, d, func(c *conn) (a answer, err error) {
		w, err := found(c, scanWorker, bloom.ErrWorkerNotFound, `SELECT `+workerColumns+`, `+countHeld+` FROM workers w WHERE w.id = ? AND w.removed = 0`, id)
		if err != nil {
			return a, err
		}
		a.worker = w.Worker
		a.leases, err = collect(c, scanLease, `SELECT `+leaseColumns+` FROM leases l WHERE l.worker_id = ? AND l.status = 'active' ORDER BY l.seq DESC`, id)
		return a, err
	})
	return a.worker, a.leases, err
}

// Workers lists all workers by name.
func (d *database) Workers(ctx context.Context) ([]bloom.Worker, error) {
	return read(ctx, d, func(c *conn) ([]bloom.Worker, error) { return c.workers(`WHERE w.removed = 0 ORDER BY w.id`) })
}

// ControlDrained names the workers that the control plane drains.
func (d *database) ControlDrained(ctx context.Context) ([]string, error) {
	return read(ctx, d, func(c *conn) ([]string, error) {
		return collect(c, func(r row) string { return r.str(0) }, `SELECT w.id FROM workers w WHERE w.removed = 0 AND w.control_draining = 1 ORDER BY w.id`)
	})
}

// Artifact reads one artifact.
func (d *database) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	return read(ctx, d, func(c *conn) (bloom.Artifact, error) {
		return found(c, scanArtifact, bloom.NotFound("Artifact"), `SELECT `+artifactColumns+` FROM runtime_artifacts a WHERE a.id = ?`, id)
	})
}

// Settings reads all settings.
func (d *database) Settings(ctx context.Context) (map[string]string, error) {
	return read(ctx, d, func(c *conn) (map[string]string, error) {
		all := make(map[string]string)
		err := c.each(`SELECT key, value FROM runtime_settings`, func(r row) error {
			all[r.str(0)] = r.str(1)
			return nil
		})
		return all, err
	})
}

// Due lists delayed tasks whose time has come.
func (d *database) Due(ctx context.Context, now int64, limit int, except []string) ([]string, error) {
	return read(ctx, d, func(c *conn) ([]string, error) {
		return collect(c, func(r row) string { return r.str(0) }, `SELECT id FROM llm_tasks INDEXED BY llm_tasks_delayed
			WHERE status = 'queued' AND gate = 'delayed' AND run_at <= ? AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY run_at LIMIT +?`,
			now, schema.ListJSON(except), limit)
	})
}

// ActiveLeases lists active leases that expire by then. They are few (no more than
// the workers' slots), so their deadlines have no index that every heartbeat would
// have to write.
func (d *database) ActiveLeases(ctx context.Context, before int64, limit int, except []string) ([]bloom.Lease, error) {
	return read(ctx, d, func(c *conn) ([]bloom.Lease, error) {
		return collect(c, scanLease, `SELECT `+leaseColumns+` FROM leases l INDEXED BY leases_held
			WHERE l.status = 'active' AND l.expires_at <= ? AND l.id NOT IN (SELECT value FROM json_each(?)) ORDER BY l.seq LIMIT +?`,
			before, schema.ListJSON(except), limit)
	})
}

// OldTasks lists tasks in the order of their numbers.
func (d *database) OldTasks(ctx context.Context, after int64, limit int) ([]store.Aged, error) {
	return read(ctx, d, func(c *conn) ([]store.Aged, error) {
		return collect(c, scanAged, `SELECT `+agedColumns+` FROM llm_tasks t WHERE t.seq > ? ORDER BY t.seq LIMIT +?`, after, limit)
	})
}

// DueTranscripts lists tasks whose streams do not wholly lie in transcripts.
func (d *database) DueTranscripts(ctx context.Context, after int64, limit int) (ids []string, next int64, err error) {
	next = after
	ids, err = read(ctx, d, func(c *conn) ([]string, error) {
		return collect(c, func(r row) string { next = r.int(0); return r.str(1) },
			`SELECT t.seq, t.id FROM run_transcripts d JOIN llm_tasks t ON t.seq = d.task WHERE d.due = 1 AND d.task > ? ORDER BY d.task LIMIT +?`, after, limit)
	})
	return ids, next, err
}

// OldStreams lists tasks that have events, one step of the index for each.
func (d *database) OldStreams(ctx context.Context, after int64, limit int) ([]store.Aged, error) {
	return read(ctx, d, func(c *conn) ([]store.Aged, error) {
		var all []store.Aged
		for len(all) < limit {
			r, ok, err := c.one(`SELECT `+agedColumns+` FROM llm_tasks t WHERE t.seq = (SELECT e.task FROM task_events e WHERE e.task > ? ORDER BY e.task LIMIT 1)`, after)
			if err != nil || !ok {
				return all, err
			}
			all = append(all, scanAged(r))
			after = all[len(all)-1].Seq
		}
		return all, nil
	})
}

// OldAudit lists entries of the audit in the order of their numbers.
func (d *database) OldAudit(ctx context.Context, after int64, limit int) ([]store.AgedAudit, error) {
	return read(ctx, d, func(c *conn) ([]store.AgedAudit, error) {
		return collect(c, func(r row) store.AgedAudit { return store.AgedAudit{Seq: r.int(0), At: r.int(1)} },
			`SELECT seq, timestamp FROM audit_logs WHERE seq > ? ORDER BY seq LIMIT +?`, after, limit)
	})
}

// RemovedContent lists contents to be deleted from the blob store.
func (d *database) RemovedContent(ctx context.Context, after int64, limit int) ([]bloom.RemovedContent, error) {
	return read(ctx, d, func(c *conn) ([]bloom.RemovedContent, error) {
		return collect(c, func(r row) bloom.RemovedContent { return bloom.RemovedContent{Seq: r.int(0), URL: r.str(1)} },
			`SELECT seq, url FROM removed_contents WHERE seq > ? ORDER BY seq LIMIT +?`, after, bloom.Page{Limit: limit}.Size())
	})
}
