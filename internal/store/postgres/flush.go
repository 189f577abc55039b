package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

// flush writes what the operations made and commits, in one round trip. A kind
// of change is one statement, however many rows it has.
func (t *tx) flush() error {
	b := &pgx.Batch{}
	chunked(b, t.newTasks, insertTasks)
	chunked(b, t.dirty, updateTasks)
	chunked(b, t.newLeases, insertLeases)
	chunked(b, t.moved, updateLeases)
	chunked(b, t.artifacts, insertArtifacts)
	chunked(b, t.outcomes, insertResults)
	chunked(b, t.events, insertEvents)
	chunked(b, t.audits, insertAudits)
	t.updateContacts(b)
	t.addCounts(b)
	return t.send(b)
}

// column is one value of every row, as a statement's array.
func column[T, V any](rows []T, value func(T) V) []V {
	c := make([]V, len(rows))
	for i, r := range rows {
		c[i] = value(r)
	}
	return c
}

// chunkRows bounds the rows of one statement: reaching the nth value of an array
// of texts costs a walk over those before it.
const chunkRows = 32

func chunked[T any](b *pgx.Batch, rows []T, queue func(*pgx.Batch, []T)) {
	for part := range slices.Chunk(rows, chunkRows) {
		queue(b, part)
	}
}

// rows reads arrays, numbered from $first on, as the columns of rows. One
// unnest of all of them would fill a store of tuples for every column.
func rows(first int, columns string) string {
	var values []string
	number := first
	for column := range strings.SplitSeq(columns, ", ") {
		name, kind, _ := strings.Cut(column, " ")
		value := fmt.Sprintf("($%d::%s[])[i]", number, kind)
		if kind == "uuid" {
			value = fmt.Sprintf("($%d::text[])[i]::uuid", number)
		}
		values = append(values, value+" AS "+name)
		number++
	}
	_, kind, _ := strings.Cut(strings.Split(columns, ", ")[0], " ")
	if kind == "uuid" {
		kind = "text"
	}
	return fmt.Sprintf("(SELECT %s FROM generate_series(1, cardinality($%d::%s[])) i) x", strings.Join(values, ", "), first, kind)
}

// all makes a statement fail that did not change as many rows as it should.
func all(statement string) string {
	return `WITH changed AS (` + statement + ` RETURNING 1) SELECT 1 / (count(*) = $1)::int FROM changed`
}

var insertTaskRows = `INSERT INTO llm_tasks (seq, id, status, gate, updated_at, lease_id, worker_id, attempts, max_attempts, run_at, error_class, epoch, ordered,
			priority, label_key, preferred_worker, preferred_until, last_event, context_id, agent_slug, created_at, desired_format, timeout_sec, budget,
			labels, idempotency_scope, idempotency_key, body_hash, context_hints, prompt)
		SELECT seq, id::uuid, status, nullif(gate, ''), updated_at, lease_id::uuid, worker_id, attempts, max_attempts, run_at, error_class, epoch, ordered,
			priority, label_key, preferred_worker, preferred_until, last_event, context_id, agent_slug, created_at, desired_format, timeout_sec, budget,
			labels::jsonb, scope, key, body_hash, hints::jsonb, prompt
		FROM ` + rows(1, `seq bigint, id text, status text, gate text, updated_at bigint, lease_id text, worker_id text, attempts int, max_attempts int, run_at bigint, error_class text, epoch bigint, ordered bool, priority int, label_key text, preferred_worker text, preferred_until bigint, last_event bigint, context_id text, agent_slug text, created_at bigint, desired_format text, timeout_sec int, budget bigint, labels text, scope text, key text, body_hash text, hints text, prompt text`)

func insertTasks(b *pgx.Batch, n []*task) {
	b.Queue(insertTaskRows,
		column(n, func(k *task) int64 { return k.seq }), column(n, func(k *task) string { return k.ID }),
		column(n, func(k *task) string { return string(k.Status) }), column(n, func(k *task) string { return string(k.gate) }),
		column(n, func(k *task) int64 { return k.UpdatedAt }), column(n, func(k *task) *string { return k.LeaseID }),
		column(n, func(k *task) *string { return k.WorkerID }), column(n, func(k *task) int32 { return int32(k.Attempts) }),
		column(n, func(k *task) int32 { return int32(k.MaxAttempts) }), column(n, func(k *task) int64 { return k.RunAt }),
		column(n, func(k *task) *string { return k.ErrorClass }), column(n, func(k *task) int64 { return k.Epoch }),
		column(n, func(k *task) bool { return k.Policy.Ordered }), column(n, func(k *task) int32 { return int32(k.Priority) }),
		column(n, func(k *task) string { return k.labelKey }), column(n, func(k *task) *string { return k.preferred }),
		column(n, func(k *task) int64 { return k.until }), column(n, func(k *task) int64 { return k.lastEvent }),
		column(n, func(k *task) string { return k.ContextID }), column(n, func(k *task) string { return k.AgentSlug }),
		column(n, func(k *task) int64 { return k.CreatedAt }), column(n, func(k *task) string { return string(k.DesiredFormat) }),
		column(n, func(k *task) int32 { return int32(k.Policy.TimeoutSec) }), column(n, func(k *task) int64 { return k.Policy.Budget }),
		column(n, func(k *task) string { return listJSON(k.Labels) }), column(n, func(k *task) *string { return k.insert.scope }),
		column(n, func(k *task) *string { return k.IdempotencyKey }), column(n, func(k *task) string { return k.insert.bodyHash }),
		column(n, func(k *task) string { return listJSON(k.ContextHints) }), column(n, func(k *task) string { return k.Prompt }))
}

var updateTaskRows = all(`UPDATE llm_tasks t SET status = x.status, gate = nullif(x.gate, ''), updated_at = x.updated_at, lease_id = x.lease_id::uuid,
			worker_id = x.worker_id, attempts = x.attempts, run_at = x.run_at, error_class = x.error_class, cancel_requested = x.cancel_requested,
			epoch = x.epoch, preferred_worker = x.preferred, preferred_until = x.until, last_event = x.last_event
		FROM ` + rows(2, `seq bigint, was_status text, was_epoch bigint, status text, gate text, updated_at bigint, lease_id text, worker_id text, attempts int, run_at bigint, error_class text, cancel_requested bool, epoch bigint, preferred text, until bigint, last_event bigint`) + `
		WHERE t.seq = x.seq AND t.status = x.was_status AND t.epoch = x.was_epoch`)

func updateTasks(b *pgx.Batch, n []*task) {
	b.Queue(updateTaskRows, len(n),
		column(n, func(k *task) int64 { return k.seq }), column(n, func(k *task) string { return string(k.was.status) }),
		column(n, func(k *task) int64 { return k.was.epoch }), column(n, func(k *task) string { return string(k.Status) }),
		column(n, func(k *task) string { return string(k.gate) }), column(n, func(k *task) int64 { return k.UpdatedAt }),
		column(n, func(k *task) *string { return k.LeaseID }), column(n, func(k *task) *string { return k.WorkerID }),
		column(n, func(k *task) int32 { return int32(k.Attempts) }), column(n, func(k *task) int64 { return k.RunAt }),
		column(n, func(k *task) *string { return k.ErrorClass }), column(n, func(k *task) bool { return k.CancelRequested }),
		column(n, func(k *task) int64 { return k.Epoch }), column(n, func(k *task) *string { return k.preferred }),
		column(n, func(k *task) int64 { return k.until }), column(n, func(k *task) int64 { return k.lastEvent }))
}

var insertLeaseRows = `INSERT INTO leases (id, task_id, worker_id, epoch, status, started_at, expires_at, ttl_seconds, last_heartbeat, context_id)
		SELECT id::uuid, task_id::uuid, worker_id, epoch, status, started_at, expires_at, ttl_seconds, last_heartbeat, context_id
		FROM ` + rows(1, `id text, task_id text, worker_id text, epoch bigint, status text, started_at bigint, expires_at bigint, ttl_seconds int, last_heartbeat bigint, context_id text`)

func insertLeases(b *pgx.Batch, n []*lease) {
	b.Queue(insertLeaseRows,
		column(n, func(l *lease) string { return l.ID }), column(n, func(l *lease) string { return l.TaskID }),
		column(n, func(l *lease) string { return l.WorkerID }), column(n, func(l *lease) int64 { return l.Epoch }),
		column(n, func(l *lease) string { return string(l.Status) }), column(n, func(l *lease) int64 { return l.StartedAt }),
		column(n, func(l *lease) int64 { return l.ExpiresAt }), column(n, func(l *lease) int32 { return int32(l.TTLSeconds) }),
		column(n, func(l *lease) int64 { return l.LastHeartbeat }), column(n, func(l *lease) *string { return l.ContextID }))
}

var updateLeaseRows = all(`UPDATE leases l SET status = x.status, expires_at = x.expires_at, last_heartbeat = x.last_heartbeat
		FROM ` + rows(2, `id uuid, was text, epoch bigint, status text, expires_at bigint, last_heartbeat bigint`) + `
		WHERE l.id = x.id AND l.status = x.was AND l.epoch = x.epoch`)

func updateLeases(b *pgx.Batch, n []*lease) {
	b.Queue(updateLeaseRows, len(n),
		column(n, func(l *lease) string { return l.ID }), column(n, func(l *lease) string { return string(l.was) }),
		column(n, func(l *lease) int64 { return l.Epoch }), column(n, func(l *lease) string { return string(l.Status) }),
		column(n, func(l *lease) int64 { return l.ExpiresAt }), column(n, func(l *lease) int64 { return l.LastHeartbeat }))
}

var insertArtifactRows = `INSERT INTO runtime_artifacts (id, task_id, type, created_at, finalized, url, tags, size, sha256, media_type, content)
		SELECT id::uuid, task_id::uuid, type, created_at, true, url, tags::jsonb, size, sha256, media_type, content
		FROM ` + rows(1, `id text, task_id text, type text, created_at bigint, url text, tags text, size bigint, sha256 text, media_type text, content text`)

func insertArtifacts(b *pgx.Batch, n []*bloom.Artifact) {
	b.Queue(insertArtifactRows,
		column(n, func(a *bloom.Artifact) string { return a.ID }), column(n, func(a *bloom.Artifact) string { return a.TaskID }),
		column(n, func(a *bloom.Artifact) string { return a.Type }), column(n, func(a *bloom.Artifact) int64 { return a.CreatedAt }),
		column(n, func(a *bloom.Artifact) *string { return a.URL }), column(n, func(a *bloom.Artifact) string { return listJSON(a.Tags) }),
		column(n, func(a *bloom.Artifact) int64 { return a.Size }), column(n, func(a *bloom.Artifact) string { return a.SHA256 }),
		column(n, func(a *bloom.Artifact) string { return a.MediaType }), column(n, func(a *bloom.Artifact) *string { return a.Content }))
}

var insertResultRows = `INSERT INTO llm_results (id, task_id, epoch, worker_id, artifact_id, status, error_class, metrics, completed_at, body_hash, error_message)
		SELECT id::uuid, task_id::uuid, epoch, worker_id, artifact_id::uuid, status, error_class, metrics::jsonb, completed_at, body_hash, error_message
		FROM ` + rows(1, `id text, task_id text, epoch bigint, worker_id text, artifact_id text, status text, error_class text, metrics text, completed_at bigint, body_hash text, error_message text`)

func insertResults(b *pgx.Batch, n []outcome) {
	b.Queue(insertResultRows,
		column(n, func(o outcome) string { return o.result.ID }), column(n, func(o outcome) string { return o.result.TaskID }),
		column(n, func(o outcome) int64 { return o.result.Epoch }), column(n, func(o outcome) string { return o.result.WorkerID }),
		column(n, func(o outcome) string { return o.result.ArtifactID }), column(n, func(o outcome) string { return string(o.result.Status) }),
		column(n, func(o outcome) *string { return o.result.ErrorClass }),
		column(n, func(o outcome) string { return string(bloom.MustJSON(o.result.Metrics)) }),
		column(n, func(o outcome) int64 { return o.result.CompletedAt }), column(n, func(o outcome) string { return o.bodyHash }),
		column(n, func(o outcome) *string { return o.result.ErrorMessage }))
}

var insertEventRows = `INSERT INTO task_events (task, seq, at, epoch, worker_seq, type, data)
		SELECT task, seq, at, epoch, worker_seq, type, data FROM ` + rows(1, `task bigint, seq bigint, at bigint, epoch bigint, worker_seq bigint, type text, data text`)

func insertEvents(b *pgx.Batch, n []event) {
	b.Queue(insertEventRows,
		column(n, func(e event) int64 { return e.task }), column(n, func(e event) int64 { return e.seq }),
		column(n, func(e event) int64 { return e.at }), column(n, func(e event) int64 { return e.epoch }),
		column(n, func(e event) *int64 { return e.workerSeq }), column(n, func(e event) string { return e.kind }),
		column(n, func(e event) string { return e.data }))
}

var insertAuditRows = `INSERT INTO audit_logs (id, timestamp, action, entity_type, entity_id, actor, detail, data)
		SELECT id::uuid, timestamp, action, entity_type, entity_id, actor, detail, data::json
		FROM ` + rows(1, `id text, timestamp bigint, action text, entity_type text, entity_id text, actor text, detail text, data text`)

func insertAudits(b *pgx.Batch, n []bloom.Audit) {
	b.Queue(insertAuditRows,
		column(n, func(a bloom.Audit) string { return a.ID }), column(n, func(a bloom.Audit) int64 { return a.Timestamp }),
		column(n, func(a bloom.Audit) string { return a.Action }), column(n, func(a bloom.Audit) string { return a.EntityType }),
		column(n, func(a bloom.Audit) string { return a.EntityID }), column(n, func(a bloom.Audit) string { return a.Actor }),
		column(n, func(a bloom.Audit) string { return a.Detail }), column(n, func(a bloom.Audit) string { return string(a.Data) }))
}

// updateContacts notes that workers were heard of, in the order of their names.
func (t *tx) updateContacts(b *pgx.Batch) {
	slices.SortFunc(t.contacts, func(a, b *stored) int { return strings.Compare(a.ID, b.ID) })
	for _, w := range t.contacts {
		b.Queue(`UPDATE workers SET status = CASE WHEN $5 THEN $2 ELSE status END, last_heartbeat = $3, instance_id = $4, instance_seen = $3 WHERE id = $1`,
			w.ID, w.Status, t.now, w.instanceID, w.back)
	}
}

var addCounts = func() string {
	sets := make([]string, len(countColumns))
	for i, c := range countColumns {
		sets[i] = fmt.Sprintf("%s = %s + $%d", c, c, i+2)
	}
	return `UPDATE counters SET ` + strings.Join(sets, ", ") + ` WHERE slot = $1`
}()

// counterSlots is how many rows the counters are spread over.
const counterSlots = 64

// addCounts comes last, so that others who share the slot wait the least.
func (t *tx) addCounts(b *pgx.Batch) {
	if t.counts == (counts{}) {
		return
	}
	args := []any{t.c.PgConn().PID() % counterSlots}
	for _, n := range t.counts {
		args = append(args, n)
	}
	b.Queue(addCounts, args...)
}
