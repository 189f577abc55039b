package postgres

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store"
)

// queue puts together what is to be written. A kind of change is one statement,
// however many rows it has.
func (t *tx) queue(b *pgx.Batch, c *store.Changes) {
	updateTasks.queue(b, c.Tasks)
	insertTasks.queue(b, c.NewTasks)
	updateLeases.queue(b, c.Leases) // those that end first: a task has one active lease
	insertLeases.queue(b, c.NewLeases)
	insertArtifacts.queue(b, c.NewArtifacts())
	insertResults.queue(b, c.Outcomes)
	moveArtifacts.queue(b, c.Moves)
	ended, kept := c.Streams()
	endStreams.queue(b, ended)
	keepStreams.queue(b, kept)
	insertEvents.queue(b, c.Events)
	insertAudits.queue(b, c.Audits)
	queueChain(b, c)
	putWorkers.queue(b, c.Workers)
	t.queueSettings(b, c)
	putKeys.queue(b, c.APIKeys)
	putSessions.queue(b, c.Sessions)
	queueSearch(b, c)
	queueLogs(b, c)
	queueRemoval(b, c)
	queueGauge(b, c)
	queueContexts(b, c) // late, for others may wait for them
	t.queueCounts(b, c)
}

// bulk is a statement that writes many rows: one text for each number of rows, with
// a parameter for every value. Arrays that are taken apart would need one text
// only, but to prepare their taking apart costs the server more than the rows do.
type bulk[T any] struct {
	columns   []string                                 // name and type of each
	statement func(columns, rows string, n int) string // of n VALUES lists
	values    func(args []any, row T) []any            // in the order of the columns

	texts [maxRows + 1]atomic.Pointer[string] // by number of rows
}

// maxRows bounds the rows of one statement.
const maxRows = 32

// queue writes rows in few statements of few sizes, for the server keeps each.
func (k *bulk[T]) queue(b *pgx.Batch, rows []T) {
	for len(rows) > 0 {
		n := len(rows)
		switch {
		case n >= maxRows:
			n = maxRows
		case n > maxRows/2:
			n = maxRows / 2
		}
		args := make([]any, 0, n*len(k.columns))
		for _, row := range rows[:n] {
			args = k.values(args, row)
		}
		b.Queue(k.text(n), args...)
		rows = rows[n:]
	}
}

func (k *bulk[T]) text(n int) string {
	if text := k.texts[n].Load(); text != nil {
		return *text
	}
	var names []string
	var rows strings.Builder
	for row := range n {
		for i, column := range k.columns {
			name, kind, _ := strings.Cut(column, " ")
			if row == 0 {
				names = append(names, name)
			}
			open := ", "
			if i == 0 && row == 0 {
				open = "("
			} else if i == 0 {
				open = "), ("
			}
			fmt.Fprintf(&rows, "%s$%d::%s", open, row*len(k.columns)+i+1, kind)
		}
	}
	rows.WriteString(")")
	text := k.statement(strings.Join(names, ", "), rows.String(), n)
	k.texts[n].Store(&text)
	return text
}

// inserts adds rows to a table.
func inserts[T any](table, columns string, values func([]any, T) []any) *bulk[T] {
	return &bulk[T]{columns: strings.Split(columns, ", "), values: values, statement: func(names, rows string, _ int) string {
		return `INSERT INTO ` + table + ` (` + names + `) VALUES ` + rows
	}}
}

// updates changes rows that are locked, and fails when one is not there.
func updates[T any](table, key, set, columns string, values func([]any, T) []any) *bulk[T] {
	return &bulk[T]{columns: strings.Split(columns, ", "), values: values, statement: func(names, rows string, n int) string {
		return fmt.Sprintf(`WITH changed AS (UPDATE %s t SET %s FROM (VALUES %s) x (%s) WHERE t.%s = x.%s RETURNING 1)
			SELECT 1 / (count(*) = %d)::int FROM changed`, table, set, rows, names, key, key, n)
	}}
}

var insertTasks = inserts("llm_tasks", "seq bigint, id uuid, status text, gate text, updated_at bigint, lease_id uuid, worker_id text, attempts int, "+
	"max_attempts int, run_at bigint, error_class text, cancel_requested bool, epoch bigint, ordered bool, priority int, label_key text, preferred_worker text, "+
	"preferred_until bigint, last_event bigint, context_id text, agent_slug text, created_at bigint, desired_format text, timeout_sec int, budget bigint, "+
	"labels jsonb, idempotency_scope text, idempotency_key text, body_hash text, context_hints jsonb, prompt text, created_by text, workspace text, artifact_globs jsonb, request_id text",
	func(v []any, k *store.Task) []any {
		return append(v, k.Seq, k.ID, string(k.Status), gateValue(k.Gate), k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts,
			k.MaxAttempts, k.RunAt, k.ErrorClass, k.CancelRequested, k.Epoch, k.Policy.Ordered, k.Priority, schema.LabelKey(k.Labels), k.Preferred,
			k.Until, k.LastEvent, k.ContextID, k.AgentSlug, k.CreatedAt, string(k.DesiredFormat), k.Policy.TimeoutSec, k.Policy.Budget,
			schema.ListJSON(k.Labels), k.Scope, k.IdempotencyKey, k.BodyHash, schema.ListJSON(k.ContextHints), k.Prompt, k.Actor, string(k.Policy.Workspace), schema.ListJSON(k.Policy.Artifacts), k.RequestID)
	})

// gateValue is NULL for a task that is not queued.
func gateValue(g bloom.Gate) any {
	if g == "" {
		return nil
	}
	return string(g)
}

var updateTasks = updates("llm_tasks", "seq",
	`status = x.status, gate = x.gate, updated_at = x.updated_at, lease_id = x.lease_id, worker_id = x.worker_id, attempts = x.attempts,
		run_at = x.run_at, error_class = x.error_class, cancel_requested = x.cancel_requested, epoch = x.epoch, preferred_worker = x.preferred,
		preferred_until = x.until, last_event = x.last_event`,
	"seq bigint, status text, gate text, updated_at bigint, lease_id uuid, worker_id text, attempts int, "+
		"run_at bigint, error_class text, cancel_requested bool, epoch bigint, preferred text, until bigint, last_event bigint",
	func(v []any, k *store.Task) []any {
		return append(v, k.Seq, string(k.Status), gateValue(k.Gate), k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts,
			k.RunAt, k.ErrorClass, k.CancelRequested, k.Epoch, k.Preferred, k.Until, k.LastEvent)
	})

var insertLeases = inserts("leases",
	"id uuid, task_id uuid, worker_id text, epoch bigint, status text, started_at bigint, expires_at bigint, ttl_seconds int, last_heartbeat bigint, context_id text",
	func(v []any, l *store.Lease) []any {
		return append(v, l.ID, l.TaskID, l.WorkerID, l.Epoch, string(l.Status), l.StartedAt, l.ExpiresAt, l.TTLSeconds, l.LastHeartbeat, l.ContextID)
	})

var updateLeases = updates("leases", "id",
	`status = x.status, expires_at = x.expires_at, last_heartbeat = x.last_heartbeat`,
	"id uuid, status text, expires_at bigint, last_heartbeat bigint",
	func(v []any, l *store.Lease) []any {
		return append(v, l.ID, string(l.Status), l.ExpiresAt, l.LastHeartbeat)
	})

var insertArtifacts = inserts("runtime_artifacts",
	"id uuid, task_id uuid, type text, created_at bigint, finalized bool, url text, tags jsonb, size bigint, sha256 text, media_type text, content text, "+
		"displaced bool, epoch bigint, path text",
	func(v []any, a store.NewArtifact) []any {
		var path *string
		if a.Path != "" {
			path = &a.Path
		}
		return append(v, a.ID, a.TaskID, a.Type, a.CreatedAt, a.Finalized, a.URL, schema.ListJSON(a.Tags), a.Size, a.SHA256, a.MediaType, a.Content,
			a.Displaced, a.Epoch, path)
	})

// endStreams and keepStreams note which streams have ended, and how far they lie in
// transcripts.
var endStreams = puts("run_transcripts", "task bigint, due bool", func(v []any, k *store.Kept) []any { return append(v, k.Task, k.Due) })

var keepStreams = puts("run_transcripts", "task bigint, due bool, upto bigint",
	func(v []any, k *store.Kept) []any { return append(v, k.Task, k.Due, *k.UpTo) })

var moveArtifacts = updates("runtime_artifacts", "id", `url = x.url, content = NULL, displaced = false`, "id uuid, url text",
	func(v []any, m store.Move) []any { return append(v, m.ID, m.URL) })

var insertResults = inserts("llm_results",
	"id uuid, task_id uuid, epoch bigint, worker_id text, artifact_id uuid, status text, error_class text, metrics jsonb, completed_at bigint, "+
		"body_hash text, error_message text",
	func(v []any, o *store.Outcome) []any {
		r := o.Result
		return append(v, r.ID, r.TaskID, r.Epoch, r.WorkerID, r.ArtifactID, string(r.Status), r.ErrorClass, string(bloom.MustJSON(r.Metrics)), r.CompletedAt,
			o.BodyHash, r.ErrorMessage)
	})

var insertEvents = inserts("task_events",
	"task bigint, seq bigint, at bigint, epoch bigint, worker_seq bigint, type text, data text",
	func(v []any, e store.Event) []any {
		return append(v, e.Task, e.Seq, e.At, e.Epoch, e.WorkerSeq, e.Type, string(e.Data))
	})

var insertAudits = inserts("audit_logs",
	"id uuid, timestamp bigint, action text, entity_type text, entity_id text, actor text, detail text, data json, key_id text, address text",
	func(v []any, a bloom.Audit) []any {
		return append(v, a.ID, a.Timestamp, a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, string(a.Data), a.KeyID, a.Address)
	})

const workerValues = "id text, node_id text, url text, status text, claude_cli bool, max_concurrency int, labels jsonb, last_heartbeat bigint, ip_addrs jsonb, " +
	"obs_count bigint, db_sha text, registered_at bigint, agent_version text, os_info text, install_method text, draining bool, instance_id text, " +
	"instance_seen bigint, removed bool, control_draining bool, posted_at bigint, agents jsonb"

// puts adds rows to a table, or replaces those with the same id, which is the first column.
func puts[T any](table, columns string, values func([]any, T) []any) *bulk[T] {
	return &bulk[T]{columns: strings.Split(columns, ", "), values: values, statement: func(names, rows string, _ int) string {
		var sets []string
		key, _, _ := strings.Cut(names, ",")
		for name := range strings.SplitSeq(names, ", ") {
			sets = append(sets, name+" = excluded."+name)
		}
		return `INSERT INTO ` + table + ` (` + names + `) VALUES ` + rows + ` ON CONFLICT (` + key + `) DO UPDATE SET ` + strings.Join(sets[1:], ", ")
	}}
}

var putWorkers = puts("workers", workerValues,
	func(v []any, w *lifecycle.KnownWorker) []any {
		return append(v, w.ID, w.NodeID, w.URL, string(w.Status), w.Capabilities.ClaudeCLI, w.Capabilities.MaxConcurrency, schema.ListJSON(w.Capabilities.Labels),
			w.LastHeartbeat, schema.ListJSON(w.IPAddrs), int64(w.ObsCount), w.DBSHA, w.RegisteredAt, w.AgentVersion, w.OSInfo, w.InstallMethod, w.RuntimeDrain, w.InstanceID,
			w.InstanceSeen, w.Removed, w.ControlDrain, w.PostedAt, schema.ListJSON(w.Agents))
	})

func (t *tx) queueSettings(b *pgx.Batch, c *store.Changes) {
	if len(c.Settings) == 0 {
		return
	}
	keys, values := make([]string, 0, len(c.Settings)), make([]string, 0, len(c.Settings))
	for k, v := range c.Settings {
		if v == "" {
			b.Queue(`DELETE FROM runtime_settings WHERE key = $1`, k)
			continue
		}
		keys, values = append(keys, k), append(values, v)
	}
	b.Queue(`INSERT INTO runtime_settings (key, value, updated_at) SELECT k, v, $3 FROM unnest($1::text[], $2::text[]) x (k, v) ORDER BY k
		ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`, keys, values, c.Now)
}

const deleteStreams = `DELETE FROM task_events WHERE task = ANY($1::bigint[])`

// queueRemoval deletes what has grown old.
func queueRemoval(b *pgx.Batch, c *store.Changes) {
	r := &c.Removal
	seq, id := func(e *store.Aged) int64 { return e.Seq }, func(e *store.Aged) string { return e.ID }
	for task, below := range r.Events {
		b.Queue(`DELETE FROM task_events WHERE task = $1 AND seq < $2`, task, below)
	}
	if len(r.Streams) > 0 {
		b.Queue(deleteStreams, column(r.Streams, seq))
	}
	if len(r.Tasks) > 0 {
		seqs, ids := column(r.Tasks, seq), column(r.Tasks, id)
		b.Queue(deleteStreams, seqs)
		b.Queue(`DELETE FROM leases WHERE task_id = ANY($1::text[]::uuid[]) AND status <> 'active'`, ids)
		b.Queue(`DELETE FROM llm_results WHERE task_id = ANY($1::text[]::uuid[])`, ids)
		b.Queue(`INSERT INTO removed_contents (url, removed_at)
			SELECT url, $2 FROM runtime_artifacts WHERE task_id = ANY($1::text[]::uuid[]) AND url IS NOT NULL ORDER BY seq`, ids, c.Now)
		b.Queue(`DELETE FROM runtime_artifacts WHERE task_id = ANY($1::text[]::uuid[])`, ids)
		b.Queue(`DELETE FROM run_transcripts WHERE task = ANY($1::bigint[])`, seqs)
		b.Queue(`DELETE FROM llm_tasks WHERE seq = ANY($1::bigint[])`, seqs)
	}
	queueAuditRemoval(b, c)
	if len(r.Contents) > 0 {
		b.Queue(`DELETE FROM removed_contents WHERE seq = ANY($1::bigint[])`, r.Contents)
	}
	if len(r.Forgotten) > 0 {
		b.Queue(`DELETE FROM forgotten_contexts WHERE seq = ANY($1::bigint[])`, r.Forgotten)
	}
	queueSessionsEnd(b, r)
}
