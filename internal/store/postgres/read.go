package postgres

import (
	"context"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// Task reads one task.
func (d *database) Task(ctx context.Context, id string) (bloom.Task, error) {
	if !isID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return read(ctx, d, func(c reader) (bloom.Task, error) {
		t, err := found(ctx, c, scanWhole, bloom.ErrTaskNotFound, `SELECT `+wholeColumns+` FROM llm_tasks t WHERE t.id = $1`, id)
		if err != nil {
			return bloom.Task{}, err
		}
		return t.Task, nil
	})
}

// QueuePlace reads what decides a queued task's turn.
func (d *database) QueuePlace(ctx context.Context, id string) (bloom.QueuePlace, error) {
	if !isID(id) {
		return bloom.QueuePlace{}, bloom.ErrTaskNotFound
	}
	return read(ctx, d, func(c reader) (bloom.QueuePlace, error) {
		return found(ctx, c, func(r pgx.Rows) (p bloom.QueuePlace, err error) {
			err = r.Scan(&p.Before, &p.Preferred, &p.Until, &p.Gate)
			return p, err
		}, bloom.ErrTaskNotFound, `SELECT coalesce((SELECT o.id::text FROM llm_tasks o WHERE t.ordered AND o.context_id = t.context_id AND o.seq < t.seq
				AND o.pending ORDER BY o.seq LIMIT 1), ''),
			coalesce(t.preferred_worker, ''), t.preferred_until, coalesce(t.gate, '') FROM llm_tasks t WHERE t.id = $1`, id)
	})
}

// ofTask reads what belongs to a task, ErrTaskNotFound when there is no such task.
func ofTask[T any](ctx context.Context, d *database, taskID string, list func(c reader, seq int64) ([]T, error)) ([]T, error) {
	if !isID(taskID) {
		return nil, bloom.ErrTaskNotFound
	}
	return read(ctx, d, func(c reader) ([]T, error) {
		seq, err := found(ctx, c, scanInt, bloom.ErrTaskNotFound, `SELECT seq FROM llm_tasks WHERE id = $1`, taskID)
		if err != nil {
			return nil, err
		}
		return list(c, seq)
	})
}

// Events lists a task's stream after the given number.
func (d *database) Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error) {
	return ofTask(ctx, d, taskID, func(c reader, seq int64) ([]bloom.Event, error) {
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

// Results lists a task's results, newest first.
func (d *database) Results(ctx context.Context, taskID string) ([]bloom.Result, error) {
	return ofTask(ctx, d, taskID, func(c reader, _ int64) ([]bloom.Result, error) {
		const from = ` FROM llm_results r JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE r.task_id = $1 ORDER BY r.epoch DESC LIMIT $2 OFFSET $3`
		newest, err := collect(ctx, c, scanResult, `SELECT `+resultColumns+from, taskID, bloom.ResultsWithOutput, 0)
		if err != nil || len(newest) < bloom.ResultsWithOutput {
			return newest, err
		}
		older, err := collect(ctx, c, scanResult, `SELECT `+strings.Replace(resultColumns, "a.content", "NULL::text", 1)+from, taskID, bloom.MaxPageSize, len(newest))
		return append(newest, older...), err
	})
}

// Lease is one lease of a task.
func (d *database) Lease(ctx context.Context, taskID, leaseID string) (bloom.Lease, error) {
	if !isID(taskID) || !isID(leaseID) {
		return bloom.Lease{}, bloom.ErrLeaseLost
	}
	return read(ctx, d, func(c reader) (bloom.Lease, error) {
		return found(ctx, c, scanLease, bloom.ErrLeaseLost, `SELECT `+leaseColumns+` FROM leases l WHERE l.id = $1 AND l.task_id = $2`, leaseID, taskID)
	})
}

// Stats adds up the counters' slots; only the workers, who are few, are counted.
func (d *database) Stats(ctx context.Context) (bloom.Stats, error) {
	return read(ctx, d, func(c reader) (bloom.Stats, error) {
		st := bloom.Stats{Tasks: bloom.TaskStats{ByStatus: map[bloom.TaskStatus]int64{}}}
		var n [len(store.Counts{})]int64
		fields := make([]any, 0, len(n)+2)
		for i := range n {
			fields = append(fields, &n[i])
		}
		err := c.QueryRow(ctx, `SELECT c.*, w.* FROM
			(SELECT sum(queued)::bigint, sum(leased)::bigint, sum(running)::bigint, sum(completed)::bigint, sum(failed)::bigint, sum(dead)::bigint,
				sum(cancelled)::bigint, sum(leases)::bigint, sum(active)::bigint FROM counters) c,
			(SELECT count(*), count(*) FILTER (WHERE status = 'online') FROM workers WHERE NOT removed) w`).
			Scan(append(fields, &st.Workers.Total, &st.Workers.Online)...)
		for i, status := range bloom.TaskStatuses {
			if n[i] != 0 {
				st.Tasks.ByStatus[status] = n[i]
				st.Tasks.Total += n[i]
			}
		}
		st.Leases = bloom.LeaseStats{Total: n[store.CountLeases], Active: n[store.CountActive]}
		return st, err
	})
}

// Artifact reads one artifact.
func (d *database) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	missing := bloom.NotFound("Artifact")
	if !isID(id) {
		return bloom.Artifact{}, missing
	}
	return read(ctx, d, func(c reader) (bloom.Artifact, error) {
		return found(ctx, c, scanArtifact, missing, `SELECT `+artifactColumns+` FROM runtime_artifacts a WHERE a.id = $1`, id)
	})
}

// Settings reads all settings.
func (d *database) Settings(ctx context.Context) (map[string]string, error) {
	return read(ctx, d, func(c reader) (map[string]string, error) {
		rows, err := c.Query(ctx, `SELECT key, value FROM runtime_settings`)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		all := make(map[string]string)
		for rows.Next() {
			var k, v string
			if err := rows.Scan(&k, &v); err != nil {
				return nil, err
			}
			all[k] = v
		}
		return all, rows.Err()
	})
}

// Worker reads a worker and the leases it holds.
func (d *database) Worker(ctx context.Context, id string) (bloom.Worker, []bloom.Lease, error) {
	type answer struct {
		worker bloom.Worker
		leases []bloom.Lease
	}
	a, err := read(ctx, d, func(c reader) (a answer, err error) {
		w, err := found(ctx, c, scanWorker, bloom.ErrWorkerNotFound, `SELECT `+workerColumns+`, 0 FROM workers w WHERE w.id = $1 AND NOT w.removed`, id)
		if err != nil {
			return a, err
		}
		a.worker = w.Worker
		a.leases, err = collect(ctx, c, scanLease, `SELECT `+leaseColumns+` FROM leases l WHERE l.worker_id = $1 AND l.status = 'active' ORDER BY l.seq DESC`, id)
		a.worker.ActiveLeases = len(a.leases)
		return a, err
	})
	return a.worker, a.leases, err
}

// Workers lists all workers by name.
func (d *database) Workers(ctx context.Context) ([]bloom.Worker, error) {
	return read(ctx, d, func(c reader) ([]bloom.Worker, error) {
		return collect(ctx, c, func(r pgx.Rows) (bloom.Worker, error) {
			w, err := scanWorker(r)
			return w.Worker, err
		}, `SELECT `+workerColumns+`, coalesce(h.n, 0) FROM workers w
			LEFT JOIN (SELECT l.worker_id, count(*) AS n FROM leases l WHERE l.status = 'active' GROUP BY l.worker_id) h ON h.worker_id = w.id
			WHERE NOT w.removed ORDER BY w.id`)
	})
}

// ControlDrained names the workers that the control plane drains.
func (d *database) ControlDrained(ctx context.Context) ([]string, error) {
	return read(ctx, d, func(c reader) ([]string, error) {
		return collect(ctx, c, func(r pgx.Rows) (id string, err error) { return id, r.Scan(&id) }, `SELECT w.id FROM workers w WHERE NOT w.removed AND w.control_draining ORDER BY w.id`)
	})
}

// RemovedContent lists contents to be deleted from the blob store.
func (d *database) RemovedContent(ctx context.Context, after int64, limit int) ([]bloom.RemovedContent, error) {
	return read(ctx, d, func(c reader) ([]bloom.RemovedContent, error) {
		return collect(ctx, c, func(r pgx.Rows) (k bloom.RemovedContent, err error) {
			err = r.Scan(&k.Seq, &k.URL)
			return k, err
		}, `SELECT seq, url FROM removed_contents WHERE seq > $1 ORDER BY seq LIMIT $2`, after, bloom.Page{Limit: limit}.Size())
	})
}

// Due lists delayed tasks whose time has come.
func (d *database) Due(ctx context.Context, now int64, limit int, except []string) ([]string, error) {
	return read(ctx, d, func(c reader) ([]string, error) {
		return collect(ctx, c, scanText, `SELECT t.id::text FROM llm_tasks t
			WHERE t.gate = 'delayed' AND t.run_at <= $1 AND t.id <> ALL($2::text[]::uuid[]) ORDER BY t.run_at LIMIT $3`, now, idsOnly(except), limit)
	})
}

// ActiveLeases lists active leases that expire by then. They are few (no more than
// the workers' slots), so their deadlines have no index that every heartbeat would
// have to write.
func (d *database) ActiveLeases(ctx context.Context, before int64, limit int, except []string) ([]bloom.Lease, error) {
	return read(ctx, d, func(c reader) ([]bloom.Lease, error) {
		return collect(ctx, c, scanLease, `SELECT `+leaseColumns+` FROM leases l
			WHERE l.status = 'active' AND l.expires_at <= $1 AND l.id <> ALL($2::text[]::uuid[]) ORDER BY l.expires_at LIMIT $3`,
			before, idsOnly(except), min(limit, math.MaxInt32))
	})
}

// OldTasks lists tasks in the order of their numbers.
func (d *database) OldTasks(ctx context.Context, after int64, limit int) ([]store.Aged, error) {
	return read(ctx, d, func(c reader) ([]store.Aged, error) {
		return collect(ctx, c, scanAged, `SELECT `+agedColumns+` FROM llm_tasks t WHERE t.seq > $1 ORDER BY t.seq LIMIT $2`, after, limit)
	})
}

// streams walks along the tasks whose events are still there: one step of the
// index for each, however many events it has.
const streams = `WITH RECURSIVE w (task, n) AS (
		(SELECT e.task, 1 FROM task_events e WHERE e.task > $1 ORDER BY e.task LIMIT 1)
		UNION ALL
		SELECT (SELECT e.task FROM task_events e WHERE e.task > w.task ORDER BY e.task LIMIT 1), w.n + 1 FROM w WHERE w.task IS NOT NULL AND w.n < $2)
	SELECT ` + agedColumns + ` FROM w JOIN llm_tasks t ON t.seq = w.task ORDER BY w.n`

// DueTranscripts lists tasks whose streams do not wholly lie in transcripts.
func (d *database) DueTranscripts(ctx context.Context, after int64, limit int) (ids []string, next int64, err error) {
	next = after
	ids, err = read(ctx, d, func(c reader) ([]string, error) {
		return collect(ctx, c, func(r pgx.Rows) (id string, err error) { err = r.Scan(&next, &id); return id, err },
			`SELECT t.seq, t.id::text FROM run_transcripts r JOIN llm_tasks t ON t.seq = r.task WHERE r.due AND r.task > $1 ORDER BY r.task LIMIT $2`, after, limit)
	})
	return ids, next, err
}

// OldStreams lists tasks that have events.
func (d *database) OldStreams(ctx context.Context, after int64, limit int) ([]store.Aged, error) {
	return read(ctx, d, func(c reader) ([]store.Aged, error) { return collect(ctx, c, scanAged, streams, after, limit) })
}

// OldAudit lists entries of the audit in the order of their numbers.
func (d *database) OldAudit(ctx context.Context, after int64, limit int) ([]store.AgedAudit, error) {
	return read(ctx, d, func(c reader) ([]store.AgedAudit, error) {
		return collect(ctx, c, func(r pgx.Rows) (e store.AgedAudit, err error) {
			err = r.Scan(&e.Seq, &e.At)
			return e, err
		}, `SELECT seq, timestamp FROM audit_logs WHERE seq > $1 ORDER BY seq LIMIT $2`, after, limit)
	})
}
