package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// isID reports whether a text may be an id. PostgreSQL refuses any other text as a
// value of an id column.
func isID(s string) bool { return schema.IsID(s) }

// IDs returns the texts that may be ids.
func IDs(all []string) []string {
	known := make([]string, 0, len(all))
	for _, id := range all {
		if isID(id) {
			known = append(known, id)
		}
	}
	return known
}

// Task reads one task.
func (r *Reads) Task(ctx context.Context, id string) (bloom.Task, error) {
	if !isID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	t, err := single(ctx, r, wholeFields, bloom.ErrTaskNotFound, `SELECT `+r.wholeColumns()+` FROM llm_tasks t WHERE t.id = $1`, id)
	if err != nil {
		return bloom.Task{}, err
	}
	whole := []bloom.Task{t.Task}
	err = r.addTaskUsage(ctx, whole)
	return whole[0], err
}

// addTaskUsage sets what the attempts of tasks have used.
func (r *Reads) addTaskUsage(ctx context.Context, tasks []bloom.Task) error {
	places := make(map[string]*bloom.Task, len(tasks))
	for i := range tasks {
		if tasks[i].Epoch > 0 {
			places[tasks[i].ID] = &tasks[i]
		}
	}
	return r.usage(ctx, "task_id", "uuid", slices.Collect(maps.Keys(places)), func(id string, u bloom.Usage) { places[id].Usage = &u },
		r.Via("leases_one_active")+" WHERE l.status = 'active'", r.Via("leases_ended")+" WHERE l.status <> 'active'")
}

// addContextUsage adds what running attempts have used to their contexts.
func (r *Reads) addContextUsage(ctx context.Context, contexts []bloom.Context) error {
	places := make(map[string]*bloom.Context, len(contexts))
	for i := range contexts {
		if contexts[i].Unfinished > 0 {
			places[contexts[i].ID] = &contexts[i]
		}
	}
	return r.usage(ctx, "context_id", "text", slices.Collect(maps.Keys(places)), func(id string, u bloom.Usage) {
		places[id].Tokens += u.TokensUsed
		places[id].CostUSD += u.CostUSD
	}, r.Via("leases_held")+" WHERE l.status = 'active'")
}

// usage sums what the attempts of leases have used, by a column that is one of the keys. Each
// of among is a condition for leases, with the index that has them.
func (r *Reads) usage(ctx context.Context, column, kind string, keys []string, take func(key string, u bloom.Usage), among ...string) error {
	if len(keys) == 0 {
		return nil
	}
	for i, where := range among {
		among[i] = "SELECT l." + column + ", " + usageColumns + " FROM leases l" + where + " AND " + r.In("l."+column, 1, kind)
	}
	sums, err := all(ctx, r, func(s *keyed[bloom.Usage]) []any { return append([]any{&s.key}, usageFields(&s.value)...) },
		"SELECT "+column+", "+summedUsage+" FROM ("+strings.Join(among, " UNION ALL ")+") used GROUP BY 1", r.Array(keys))
	for _, s := range sums {
		if s.value != (bloom.Usage{}) {
			take(s.key, s.value)
		}
	}
	return err
}

// QueuePlace reads what decides when a queued task starts.
func (r *Reads) QueuePlace(ctx context.Context, id string) (bloom.QueuePlace, error) {
	if !isID(id) {
		return bloom.QueuePlace{}, bloom.ErrTaskNotFound
	}
	return single(ctx, r, func(p *bloom.QueuePlace) []any { return []any{&p.Before, &p.Preferred, &p.Until, &p.Gate} }, bloom.ErrTaskNotFound,
		`SELECT coalesce((SELECT CAST(o.id AS TEXT) FROM llm_tasks o WHERE t.ordered AND o.context_id = t.context_id AND o.seq < t.seq
				AND `+r.pending("o")+` ORDER BY o.seq LIMIT 1), ''),
			coalesce(t.preferred_worker, ''), t.preferred_until, coalesce(t.gate, '') FROM llm_tasks t WHERE t.id = $1`, id)
}

// ofTask reads what belongs to a task, or returns ErrTaskNotFound.
func ofTask[T any](ctx context.Context, r *Reads, taskID string, list func(c Conn, seq int64) ([]T, error)) ([]T, error) {
	if !isID(taskID) {
		return nil, bloom.ErrTaskNotFound
	}
	return Read(ctx, r.Source, func(c Conn) ([]T, error) {
		seq, err := One(ctx, c, Self[int64], bloom.ErrTaskNotFound, `SELECT seq FROM llm_tasks WHERE id = $1`, taskID)
		if err != nil {
			return nil, err
		}
		return list(c, seq)
	})
}

// Events lists a task's stream after the given number.
func (r *Reads) Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error) {
	return ofTask(ctx, r, taskID, func(c Conn, seq int64) ([]bloom.Event, error) {
		return Collect(ctx, c, func(e *bloom.Event) []any { return []any{&e.Seq, &e.Type, &e.At, &e.Epoch, (*verbatim)(&e.Data)} },
			`SELECT seq, type, at, epoch, data FROM (
				SELECT seq, type, at, epoch, data, sum(octet_length(data)) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) - octet_length(data) AS sofar
				FROM task_events WHERE task = $1 AND seq > $2 ORDER BY seq LIMIT CAST($3 AS BIGINT)) b WHERE sofar < $4`, seq, after, bloom.Page{Limit: limit}.Size(), bloom.MaxEventPageBytes)
	})
}

// Results lists a task's results, newest first.
func (r *Reads) Results(ctx context.Context, taskID string) ([]bloom.Result, error) {
	return ofTask(ctx, r, taskID, func(c Conn, _ int64) ([]bloom.Result, error) {
		const from = ` FROM llm_results r JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE r.task_id = $1 ORDER BY r.epoch DESC LIMIT %d OFFSET %d`
		newest, err := Collect(ctx, c, resultFields, `SELECT `+resultColumns+fmt.Sprintf(from, bloom.ResultsWithOutput, 0), taskID)
		if err != nil || len(newest) < bloom.ResultsWithOutput {
			return newest, err
		}
		older, err := Collect(ctx, c, resultFields, `SELECT `+strings.TrimSuffix(resultColumns, "a.content")+`CAST(NULL AS TEXT)`+
			fmt.Sprintf(from, bloom.MaxPageSize, bloom.ResultsWithOutput), taskID)
		return append(newest, older...), err
	})
}

// Lease reads one lease of a task.
func (r *Reads) Lease(ctx context.Context, taskID, leaseID string) (bloom.Lease, error) {
	if !isID(taskID) || !isID(leaseID) {
		return bloom.Lease{}, bloom.ErrLeaseLost
	}
	return single(ctx, r, leaseFields, bloom.ErrLeaseLost, `SELECT `+leaseColumns+` FROM leases l WHERE l.id = $1 AND l.task_id = $2`, leaseID, taskID)
}

// selectStats sums the counters' rows, and looks at the active leases and the workers, which are few.
var selectStats = `SELECT c.*, u.*, n.* FROM (SELECT ` + each(CountColumns, "CAST(sum(%s) AS BIGINT)") + ` FROM counters) c,
	(SELECT ` + summedUsage + ` FROM leases l%s WHERE l.status = 'active') u,
	(SELECT count(*), count(*) FILTER (WHERE w.status = 'online') FROM `

// Stats reads the counters.
func (r *Reads) Stats(ctx context.Context) (bloom.Stats, error) {
	type row struct {
		n               Counts
		used            bloom.Usage
		workers, online int64
	}
	got, err := single(ctx, r, func(s *row) []any {
		fields := make([]any, 0, len(s.n)+6)
		for i := range s.n {
			fields = append(fields, &s.n[i])
		}
		return append(append(fields, usageFields(&s.used)...), &s.workers, &s.online)
	}, nil, fmt.Sprintf(selectStats, r.Via("leases_held"))+r.present()+`) n`)
	st := bloom.Stats{
		Tasks:   bloom.TaskStats{ByStatus: map[bloom.TaskStatus]int64{}},
		Leases:  bloom.LeaseStats{Total: got.n[CountLeases], Active: got.n[CountActive], Usage: got.used},
		Workers: bloom.WorkerStats{Total: got.workers, Online: got.online},
	}
	for i, status := range bloom.TaskStatuses {
		if got.n[i] != 0 {
			st.Tasks.ByStatus[status] = got.n[i]
			st.Tasks.Total += got.n[i]
		}
	}
	return st, err
}

// Worker reads a worker and the leases it holds.
func (r *Reads) Worker(ctx context.Context, id string) (worker bloom.Worker, leases []bloom.Lease, err error) {
	err = r.Source.Run(ctx, func(c Conn) error {
		w, err := One(ctx, c, workerFields, bloom.ErrWorkerNotFound, `SELECT `+workerColumns+`, 0 FROM workers w WHERE w.id = $1 AND NOT w.removed`, id)
		if err != nil {
			return err
		}
		leases, err = Collect(ctx, c, leaseFields, `SELECT `+leaseColumns+` FROM leases l WHERE l.worker_id = $1 AND l.status = 'active' ORDER BY l.seq DESC`, id)
		worker, worker.ActiveLeases = w.Worker, len(leases)
		return err
	})
	return worker, leases, err
}

// Workers lists all workers by name.
func (r *Reads) Workers(ctx context.Context) ([]bloom.Worker, error) {
	known, err := all(ctx, r, workerFields, `SELECT `+workerColumns+heldColumn+` FROM `+r.present()+` ORDER BY w.id`)
	return publicWorkers(known), err
}

// WorkersAfter lists the next n workers by name.
func (r *Reads) WorkersAfter(ctx context.Context, name string, n int) ([]bloom.Worker, error) {
	known, err := all(ctx, r, workerFields, `SELECT `+workerColumns+heldColumn+` FROM `+r.present()+` AND w.id > $1 ORDER BY w.id LIMIT $2`, name, n)
	return publicWorkers(known), err
}

func publicWorkers(known []lifecycle.KnownWorker) []bloom.Worker {
	workers := make([]bloom.Worker, len(known))
	for i := range known {
		workers[i] = known[i].Worker
		workers[i].Contact = known[i].InstanceSeen
	}
	return workers
}

// ControlDrained names the workers that the control plane drains.
func (r *Reads) ControlDrained(ctx context.Context) ([]string, error) {
	return all(ctx, r, Self[string], `SELECT w.id FROM `+r.present()+` AND w.control_draining ORDER BY w.id`)
}

// WorkerLogs reads a worker's last log lines.
func (r *Reads) WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error) {
	return single(ctx, r, func(l *bloom.WorkerLogs) []any { return []any{&l.WorkerID, &l.UpdatedAt, &object{&l.Lines}} }, bloom.ErrWorkerNotFound,
		`SELECT w.id, coalesce(l.updated_at, 0), coalesce(l.lines, '[]') FROM workers w
			LEFT JOIN worker_logs l ON l.worker_id = w.id WHERE w.id = $1 AND NOT w.removed`, bloom.CleanText(id))
}

// Artifact reads one artifact.
func (r *Reads) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	missing := bloom.NotFound("Artifact")
	if !isID(id) {
		return bloom.Artifact{}, missing
	}
	return single(ctx, r, artifactFields, missing, `SELECT `+artifactColumns+` FROM runtime_artifacts a WHERE a.id = $1`, id)
}

// Settings reads all settings.
func (r *Reads) Settings(ctx context.Context) (map[string]string, error) {
	pairs, err := all(ctx, r, func(p *[2]string) []any { return []any{&p[0], &p[1]} }, `SELECT key, value FROM runtime_settings`)
	if err != nil {
		return nil, err
	}
	settings := make(map[string]string, len(pairs))
	for _, p := range pairs {
		settings[p[0]] = p[1]
	}
	return settings, nil
}

// Context reads one context.
func (r *Reads) Context(ctx context.Context, id string) (bloom.Context, error) {
	x, err := single(ctx, r, contextFields, bloom.ErrContextNotFound, `SELECT `+contextColumns+` FROM contexts x WHERE x.id = $1`, id)
	if err != nil {
		return bloom.Context{}, err
	}
	whole := []bloom.Context{x}
	err = r.addContextUsage(ctx, whole)
	return whole[0], err
}

// Transcript reads a context's transcript, nil if there is none.
func (r *Reads) Transcript(ctx context.Context, contextID string) (*bloom.Transcript, error) {
	return r.transcript(ctx, `x.context_id = $1`, contextID)
}

// TranscriptIn reads the transcript whose parts are in a folder, nil if there is
// none.
func (r *Reads) TranscriptIn(ctx context.Context, folder string) (*bloom.Transcript, error) {
	return r.transcript(ctx, `x.folder = $1`, folder)
}

func (r *Reads) transcript(ctx context.Context, by, value string) (*bloom.Transcript, error) {
	found, err := all(ctx, r, transcriptFields, `SELECT `+transcriptColumns+` FROM transcripts x WHERE `+by, value)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0].Transcript, nil
}

// Key reads one key.
func (r *Reads) Key(ctx context.Context, id string) (bloom.StoredKey, error) {
	missing := bloom.NotFound("Key")
	if id != bloom.CleanText(id) {
		return bloom.StoredKey{}, missing
	}
	return single(ctx, r, keyFields, missing, `SELECT `+keyColumns+` FROM api_keys x WHERE x.id = $1`, id)
}

// AnyKey reports whether a key was ever created.
func (r *Reads) AnyKey(ctx context.Context) (bool, error) {
	return single(ctx, r, Self[bool], nil, `SELECT EXISTS (SELECT 1 FROM api_keys)`)
}

// Session reads one session.
func (r *Reads) Session(ctx context.Context, id string) (bloom.StoredSession, error) {
	missing := bloom.NotFound("Session")
	if id != bloom.CleanText(id) {
		return bloom.StoredSession{}, missing
	}
	return single(ctx, r, sessionFields, missing, `SELECT `+sessionColumns+` FROM sessions x WHERE x.id = $1`, id)
}
