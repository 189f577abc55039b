package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// Due lists delayed tasks whose time has come.
func (r *Reads) Due(ctx context.Context, now int64, limit int, except []string) ([]string, error) {
	return all(ctx, r, Self[string], `SELECT t.id FROM llm_tasks t`+r.Via("llm_tasks_delayed")+` WHERE t.gate = 'delayed' AND t.run_at <= $1
		AND NOT (`+r.In("t.id", 2, "uuid")+`) ORDER BY t.run_at LIMIT CAST($3 AS BIGINT)`, now, r.Array(IDs(except)), limit)
}

// FirstOrdered steps from context to context along the index of pending ordered tasks.
func (r *Reads) FirstOrdered(ctx context.Context, after string, limit int) ([]FirstOrdered, error) {
	pending := ` FROM llm_tasks t` + r.Via("llm_tasks_ordered") + ` WHERE ` + r.pending("t") + ` AND t.context_id `
	first := pending + `= c.id ORDER BY t.seq LIMIT 1`
	return all(ctx, r, func(f *FirstOrdered) []any { return []any{&f.Context, &f.ID, &f.Closed} }, `WITH RECURSIVE c (id, n) AS (
			SELECT (SELECT t.context_id`+pending+`> $1 ORDER BY t.context_id LIMIT 1), 1
			UNION ALL
			SELECT (SELECT t.context_id`+pending+`> c.id ORDER BY t.context_id LIMIT 1), c.n + 1 FROM c WHERE c.id IS NOT NULL AND c.n < $2)
		SELECT c.id, (SELECT t.id`+first+`), (SELECT coalesce(t.gate = 'ordered', 1 = 0)`+first+`) FROM c WHERE c.id IS NOT NULL ORDER BY c.n`, after, limit)
}

// ActiveLeases lists active leases that expire by then. There are no more of them
// than workers' slots, so an index of deadlines, which every heartbeat would update,
// is not worth it.
func (r *Reads) ActiveLeases(ctx context.Context, before int64, limit int, except []string) ([]bloom.Lease, error) {
	return all(ctx, r, leaseFields, `SELECT `+leaseColumns+` FROM leases l`+r.Via("leases_held")+` WHERE l.status = 'active' AND l.expires_at <= $1
		AND NOT (`+r.In("l.id", 2, "uuid")+`) ORDER BY l.expires_at LIMIT CAST($3 AS BIGINT)`, before, r.Array(IDs(except)), limit)
}

// OldTasks lists tasks by number.
func (r *Reads) OldTasks(ctx context.Context, after int64, limit int) ([]Aged, error) {
	return all(ctx, r, agedFields, `SELECT `+agedColumns+` FROM llm_tasks t WHERE t.seq > $1 ORDER BY t.seq LIMIT CAST($2 AS BIGINT)`, after, limit)
}

// OldStreams lists tasks that have events, with one step along the index for each
// task.
func (r *Reads) OldStreams(ctx context.Context, after int64, limit int) ([]Aged, error) {
	return all(ctx, r, agedFields, `WITH RECURSIVE w (task, n) AS (
			SELECT (SELECT e.task FROM task_events e WHERE e.task > $1 ORDER BY e.task LIMIT 1), 1
			UNION ALL
			SELECT (SELECT e.task FROM task_events e WHERE e.task > w.task ORDER BY e.task LIMIT 1), w.n + 1 FROM w WHERE w.task IS NOT NULL AND w.n < $2)
		SELECT `+agedColumns+` FROM w JOIN llm_tasks t ON t.seq = w.task ORDER BY w.n`, after, limit)
}

// OldAudit lists audit entries by number.
func (r *Reads) OldAudit(ctx context.Context, after int64, limit int) ([]AgedAudit, error) {
	return all(ctx, r, func(e *AgedAudit) []any { return []any{&e.Seq, &e.At} },
		`SELECT seq, timestamp FROM audit_logs WHERE seq > $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`, after, limit)
}

// DueTranscripts lists tasks with events that are in no transcript.
func (r *Reads) DueTranscripts(ctx context.Context, after int64, limit int) (ids []string, next int64, err error) {
	due, err := all(ctx, r, func(e *listEntry[string]) []any { return []any{&e.seq, &e.item} },
		`SELECT t.seq, t.id FROM run_transcripts d JOIN llm_tasks t ON t.seq = d.task WHERE `+r.True("d.due")+` AND d.task > $1
			ORDER BY d.task LIMIT CAST($2 AS BIGINT)`, after, limit)
	ids, next = []string{}, after
	for _, e := range due {
		ids, next = append(ids, e.item), e.seq
	}
	return ids, next, err
}

// RemovedContent lists objects to be deleted from the blob
func (r *Reads) RemovedContent(ctx context.Context, after int64, limit int) ([]bloom.RemovedContent, error) {
	return all(ctx, r, func(k *bloom.RemovedContent) []any { return []any{&k.Seq, &k.URL} },
		`SELECT seq, url FROM removed_contents WHERE seq > $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`, after, bloom.Page{Limit: limit}.Size())
}

// Forgotten lists contexts that were forgotten, numbered above after.
func (r *Reads) Forgotten(ctx context.Context, after int64, limit int) ([]bloom.ForgottenContext, error) {
	// Not EXISTS, for which PostgreSQL may read all contexts once.
	return all(ctx, r, func(f *bloom.ForgottenContext) []any { return []any{&f.Seq, &f.ID, &f.At, &f.Used} },
		`SELECT seq, context_id, at, (SELECT x.id FROM contexts x WHERE x.id = context_id LIMIT 1) IS NOT NULL FROM forgotten_contexts WHERE seq > $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`, after, bloom.Page{Limit: limit}.Size())
}

// OldContexts lists contexts by their newest task.
func (r *Reads) OldContexts(ctx context.Context, after int64, limit int) ([]AgedContext, error) {
	return all(ctx, r, func(x *AgedContext) []any {
		return []any{&x.Seq, &x.ID, &x.LastUsedAt, &x.UpdatedAt, &x.Unfinished}
	},
		`SELECT x.seq, x.id, x.last_used_at, x.updated_at, x.unfinished FROM contexts x`+r.Via("contexts_seq")+`
			WHERE x.seq > $1 ORDER BY x.seq LIMIT CAST($2 AS BIGINT)`, after, limit)
}

// Transcripts lists transcripts by context. With local it lists only those of which a
// part is in a folder or in the database.
func (r *Reads) Transcripts(ctx context.Context, after string, limit int, local bool) ([]bloom.ContextTranscript, error) {
	from := ` FROM transcripts x`
	if local {
		from += r.Via("transcripts_local")
	}
	if from += ` WHERE x.context_id > $1`; local {
		from += ` AND ` + r.LocalParts
	}
	return all(ctx, r, transcriptFields, `SELECT `+transcriptColumns+from+` ORDER BY x.context_id LIMIT CAST($2 AS BIGINT)`, after, limit)
}

// Unfilled lists the newest tasks that were not backfilled into their contexts.
func (r *Reads) Unfilled(ctx context.Context, limit int) (below int64, ids []string, err error) {
	ids, err = Read(ctx, r.Source, func(c Conn) ([]string, error) {
		if below, err = One(ctx, c, Self[int64], nil, `SELECT below FROM context_fill`); err != nil || below == 0 {
			return nil, err
		}
		return Collect(ctx, c, Self[string], `SELECT t.id FROM llm_tasks t WHERE t.seq < $1 ORDER BY t.seq DESC LIMIT CAST($2 AS BIGINT)`, below, limit)
	})
	return below, ids, err
}

// WaitingContent counts artifacts and contexts with content that is to be moved.
func (r *Reads) WaitingContent(ctx context.Context) (int64, error) {
	n, err := single(ctx, r, Self[int64], nil, `SELECT (SELECT count(*) FROM (SELECT 1 FROM runtime_artifacts`+r.Via("runtime_artifacts_displaced")+
		` WHERE `+r.True("displaced")+` AND seq > 0 LIMIT CAST($1 AS BIGINT)) q) +
		(SELECT count(*) FROM (SELECT 1 FROM transcripts x`+r.Via("transcripts_local")+` WHERE x.context_id > '' AND `+r.LocalParts+` LIMIT CAST($1 AS BIGINT)) q)`, bloom.MaxWaiting)
	return min(n, bloom.MaxWaiting), err
}

// QueuedBy counts an actor's queued tasks.
func (r *Reads) QueuedBy(ctx context.Context, actor string, most int64) (int64, error) {
	return single(ctx, r, Self[int64], nil, `SELECT count(*) FROM (SELECT 1 FROM llm_tasks`+r.Via("llm_tasks_created_by")+
		` WHERE created_by = $1 AND gate IS NOT NULL LIMIT CAST($2 AS BIGINT)) q`, actor, most)
}

// QueueDepths lists the label sets in the queue with their depth.
func (r *Reads) QueueDepths(ctx context.Context, sets, tasks int) ([]bloom.QueueDepth, error) {
	return all(ctx, r, func(q *bloom.QueueDepth) []any { return []any{(*List)(&q.Labels), &q.Tasks, &q.Since} },
		r.sets("", "$1", `(SELECT q.labels OPEN LIMIT 1), (SELECT count(*) FROM (SELECT 1 OPEN LIMIT CAST($2 AS BIGINT)) c),
			(SELECT min(c.since) FROM (SELECT `+r.Greatest+`(q.run_at, q.updated_at) AS since OPEN LIMIT CAST($2 AS BIGINT)) c)`), sets, tasks)
}

// HeldBack counts queued tasks behind a gate.
func (r *Reads) HeldBack(ctx context.Context, gate bloom.Gate, most int) (bloom.HeldBack, error) {
	head := `SELECT created_at, run_at FROM llm_tasks t` + r.Via("llm_tasks_delayed") + ` WHERE t.gate = 'delayed' ORDER BY t.run_at`
	if gate == bloom.GateOrdered {
		head = `SELECT ` + r.Greatest + `(t.created_at, t.updated_at) AS created_at, t.run_at FROM llm_tasks t` + r.Via("llm_tasks_ordered") +
			` WHERE ` + r.pending("t") + ` AND t.gate = 'ordered' ORDER BY t.context_id, t.seq`
	}
	return single(ctx, r, func(h *bloom.HeldBack) []any { return []any{&h.Tasks, &h.Since, &h.Until} }, nil,
		`SELECT count(*), coalesce(min(created_at), 0), coalesce(min(run_at), 0) FROM (`+head+` LIMIT CAST($1 AS BIGINT)) q`, most)
}
