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
	t.insertTasks(b)
	t.updateTasks(b)
	t.insertLeases(b)
	t.updateLeases(b)
	t.insertArtifacts(b)
	t.insertResults(b)
	t.insertEvents(b)
	t.insertAudits(b)
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

// all makes a statement fail that did not change as many rows as it should.
func all(statement string, rows int) (string, int) {
	return `WITH changed AS (` + statement + ` RETURNING 1) SELECT 1 / (count(*) = $1)::int FROM changed`, rows
}

func (t *tx) insertTasks(b *pgx.Batch) {
	n := t.newTasks
	if len(n) == 0 {
		return
	}
	b.Queue(`INSERT INTO llm_tasks (seq, id, status, gate, updated_at, lease_id, worker_id, attempts, max_attempts, run_at, error_class, epoch, ordered,
			priority, label_key, preferred_worker, preferred_until, last_event, context_id, agent_slug, created_at, desired_format, timeout_sec, budget,
			labels, idempotency_scope, idempotency_key, body_hash, context_hints, prompt)
		SELECT seq, id::uuid, status, nullif(gate, ''), updated_at, lease_id::uuid, worker_id, attempts, max_attempts, run_at, error_class, epoch, ordered,
			priority, label_key, preferred_worker, preferred_until, last_event, context_id, agent_slug, created_at, desired_format, timeout_sec, budget,
			labels::jsonb, scope, key, body_hash, hints::jsonb, prompt
		FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::int[], $9::int[], $10::bigint[], $11::text[],
			$12::bigint[], $13::bool[], $14::int[], $15::text[], $16::text[], $17::bigint[], $18::bigint[], $19::text[], $20::text[], $21::bigint[], $22::text[],
			$23::int[], $24::bigint[], $25::text[], $26::text[], $27::text[], $28::text[], $29::text[], $30::text[])
		AS x (seq, id, status, gate, updated_at, lease_id, worker_id, attempts, max_attempts, run_at, error_class, epoch, ordered,
			priority, label_key, preferred_worker, preferred_until, last_event, context_id, agent_slug, created_at, desired_format, timeout_sec, budget,
			labels, scope, key, body_hash, hints, prompt)`,
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

func (t *tx) updateTasks(b *pgx.Batch) {
	n := t.dirty
	if len(n) == 0 {
		return
	}
	query, rows := all(`UPDATE llm_tasks t SET status = x.status, gate = nullif(x.gate, ''), updated_at = x.updated_at, lease_id = x.lease_id::uuid,
			worker_id = x.worker_id, attempts = x.attempts, run_at = x.run_at, error_class = x.error_class, cancel_requested = x.cancel_requested,
			epoch = x.epoch, preferred_worker = x.preferred, preferred_until = x.until, last_event = x.last_event
		FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[], $10::int[], $11::bigint[],
			$12::text[], $13::bool[], $14::bigint[], $15::text[], $16::bigint[], $17::bigint[])
		AS x (seq, was_status, was_epoch, status, gate, updated_at, lease_id, worker_id, attempts, run_at, error_class, cancel_requested, epoch,
			preferred, until, last_event)
		WHERE t.seq = x.seq AND t.status = x.was_status AND t.epoch = x.was_epoch`, len(n))
	b.Queue(query, rows,
		column(n, func(k *task) int64 { return k.seq }), column(n, func(k *task) string { return string(k.was.status) }),
		column(n, func(k *task) int64 { return k.was.epoch }), column(n, func(k *task) string { return string(k.Status) }),
		column(n, func(k *task) string { return string(k.gate) }), column(n, func(k *task) int64 { return k.UpdatedAt }),
		column(n, func(k *task) *string { return k.LeaseID }), column(n, func(k *task) *string { return k.WorkerID }),
		column(n, func(k *task) int32 { return int32(k.Attempts) }), column(n, func(k *task) int64 { return k.RunAt }),
		column(n, func(k *task) *string { return k.ErrorClass }), column(n, func(k *task) bool { return k.CancelRequested }),
		column(n, func(k *task) int64 { return k.Epoch }), column(n, func(k *task) *string { return k.preferred }),
		column(n, func(k *task) int64 { return k.until }), column(n, func(k *task) int64 { return k.lastEvent }))
}

func (t *tx) insertLeases(b *pgx.Batch) {
	n := t.newLeases
	if len(n) == 0 {
		return
	}
	b.Queue(`INSERT INTO leases (id, task_id, worker_id, epoch, status, started_at, expires_at, ttl_seconds, last_heartbeat, context_id)
		SELECT id::uuid, task_id::uuid, worker_id, epoch, status, started_at, expires_at, ttl_seconds, last_heartbeat, context_id
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::int[], $9::bigint[], $10::text[])
		AS x (id, task_id, worker_id, epoch, status, started_at, expires_at, ttl_seconds, last_heartbeat, context_id)`,
		column(n, func(l *lease) string { return l.ID }), column(n, func(l *lease) string { return l.TaskID }),
		column(n, func(l *lease) string { return l.WorkerID }), column(n, func(l *lease) int64 { return l.Epoch }),
		column(n, func(l *lease) string { return string(l.Status) }), column(n, func(l *lease) int64 { return l.StartedAt }),
		column(n, func(l *lease) int64 { return l.ExpiresAt }), column(n, func(l *lease) int32 { return int32(l.TTLSeconds) }),
		column(n, func(l *lease) int64 { return l.LastHeartbeat }), column(n, func(l *lease) *string { return l.ContextID }))
}

func (t *tx) updateLeases(b *pgx.Batch) {
	n := t.moved
	if len(n) == 0 {
		return
	}
	query, rows := all(`UPDATE leases l SET status = x.status, expires_at = x.expires_at, last_heartbeat = x.last_heartbeat
		FROM unnest($2::text[]::uuid[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[])
		AS x (id, was, epoch, status, expires_at, last_heartbeat)
		WHERE l.id = x.id AND l.status = x.was AND l.epoch = x.epoch`, len(n))
	b.Queue(query, rows,
		column(n, func(l *lease) string { return l.ID }), column(n, func(l *lease) string { return string(l.was) }),
		column(n, func(l *lease) int64 { return l.Epoch }), column(n, func(l *lease) string { return string(l.Status) }),
		column(n, func(l *lease) int64 { return l.ExpiresAt }), column(n, func(l *lease) int64 { return l.LastHeartbeat }))
}

func (t *tx) insertArtifacts(b *pgx.Batch) {
	n := t.artifacts
	if len(n) == 0 {
		return
	}
	b.Queue(`INSERT INTO runtime_artifacts (id, task_id, type, created_at, finalized, url, tags, size, sha256, media_type, content)
		SELECT id::uuid, task_id::uuid, type, created_at, true, url, tags::jsonb, size, sha256, media_type, content
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[], $10::text[])
		AS x (id, task_id, type, created_at, url, tags, size, sha256, media_type, content)`,
		column(n, func(a *bloom.Artifact) string { return a.ID }), column(n, func(a *bloom.Artifact) string { return a.TaskID }),
		column(n, func(a *bloom.Artifact) string { return a.Type }), column(n, func(a *bloom.Artifact) int64 { return a.CreatedAt }),
		column(n, func(a *bloom.Artifact) *string { return a.URL }), column(n, func(a *bloom.Artifact) string { return listJSON(a.Tags) }),
		column(n, func(a *bloom.Artifact) int64 { return a.Size }), column(n, func(a *bloom.Artifact) string { return a.SHA256 }),
		column(n, func(a *bloom.Artifact) string { return a.MediaType }), column(n, func(a *bloom.Artifact) *string { return a.Content }))
}

func (t *tx) insertResults(b *pgx.Batch) {
	n := t.outcomes
	if len(n) == 0 {
		return
	}
	b.Queue(`INSERT INTO llm_results (id, task_id, epoch, worker_id, artifact_id, status, error_class, metrics, completed_at, body_hash, error_message)
		SELECT id::uuid, task_id::uuid, epoch, worker_id, artifact_id::uuid, status, error_class, metrics::jsonb, completed_at, body_hash, error_message
		FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::text[], $11::text[])
		AS x (id, task_id, epoch, worker_id, artifact_id, status, error_class, metrics, completed_at, body_hash, error_message)`,
		column(n, func(o outcome) string { return o.result.ID }), column(n, func(o outcome) string { return o.result.TaskID }),
		column(n, func(o outcome) int64 { return o.result.Epoch }), column(n, func(o outcome) string { return o.result.WorkerID }),
		column(n, func(o outcome) string { return o.result.ArtifactID }), column(n, func(o outcome) string { return string(o.result.Status) }),
		column(n, func(o outcome) *string { return o.result.ErrorClass }),
		column(n, func(o outcome) string { return string(bloom.MustJSON(o.result.Metrics)) }),
		column(n, func(o outcome) int64 { return o.result.CompletedAt }), column(n, func(o outcome) string { return o.bodyHash }),
		column(n, func(o outcome) *string { return o.result.ErrorMessage }))
}

func (t *tx) insertEvents(b *pgx.Batch) {
	n := t.events
	if len(n) == 0 {
		return
	}
	b.Queue(`INSERT INTO task_events (task, seq, at, epoch, worker_seq, type, data)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])`,
		column(n, func(e event) int64 { return e.task }), column(n, func(e event) int64 { return e.seq }),
		column(n, func(e event) int64 { return e.at }), column(n, func(e event) int64 { return e.epoch }),
		column(n, func(e event) *int64 { return e.workerSeq }), column(n, func(e event) string { return e.kind }),
		column(n, func(e event) string { return e.data }))
}

func (t *tx) insertAudits(b *pgx.Batch) {
	n := t.audits
	if len(n) == 0 {
		return
	}
	b.Queue(`INSERT INTO audit_logs (id, timestamp, action, entity_type, entity_id, actor, detail, data)
		SELECT id::uuid, timestamp, action, entity_type, entity_id, actor, detail, data::json
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
		AS x (id, timestamp, action, entity_type, entity_id, actor, detail, data)`,
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
