package importer

import (
	"fmt"
	"strings"
)

// table describes a table to import: its columns by name and type, and the numeric key by which it
// is copied.
type table struct {
	name    string
	key     string // in the file, a number above 0
	order   string // in which both databases are compared
	byText  bool   // order is a text column
	step    int64  // of the key, in one transaction
	columns []tableColumn
}

type tableColumn struct {
	name, kind string
	from       string // its expression in the file, if different
}

func (c tableColumn) source() string {
	if c.from != "" {
		return c.from
	}
	return c.name
}

// columnsOf parses "name type" pairs.
func columnsOf(list string) (columns []tableColumn) {
	for pair := range strings.SplitSeq(list, ",") {
		name, kind, _ := strings.Cut(strings.TrimSpace(pair), " ")
		columns = append(columns, tableColumn{name: name, kind: kind})
	}
	return columns
}

// pgOrder returns the order in the database. The columns are qualified with the table: unqualified,
// they would mean the selected expressions, which are text.
func (t table) pgOrder() string {
	var columns []string
	for c := range strings.SplitSeq(t.order, ", ") {
		c = t.name + "." + c
		if t.byText {
			c += ` COLLATE "C"`
		}
		columns = append(columns, c)
	}
	return strings.Join(columns, ", ")
}

// insert returns the statement, which takes every column as an array of texts.
func (t table) insert() string {
	var names, values, arrays []string
	for i, c := range t.columns {
		names = append(names, c.name)
		values = append(values, fmt.Sprintf("x.%s::%s", c.name, c.kind))
		arrays = append(arrays, fmt.Sprintf("$%d::text[]", i+1))
	}
	return fmt.Sprintf(`INSERT INTO %s (%s) SELECT %s FROM unnest(%s) x (%s)`, t.name, strings.Join(names, ", "), strings.Join(values, ", "),
		strings.Join(arrays, ", "), strings.Join(names, ", "))
}

// moved lists all tables, each after the tables that it refers to.
var moved = []table{
	{name: "llm_tasks", key: "seq", order: "seq", step: 500, columns: append(columnsOf(`seq bigint, id uuid, status text, gate text, updated_at bigint,
		lease_id uuid, worker_id text, attempts smallint, errors smallint, max_attempts smallint, run_at bigint, error_class text, cancel_requested boolean, epoch bigint,
		ordered boolean, priority integer, label_key text, preferred_worker text, preferred_until bigint, context_id text, agent_slug text, created_at bigint,
		desired_format text, timeout_sec integer, budget bigint, labels jsonb, idempotency_scope text, idempotency_key text, body_hash text,
		context_hints jsonb, prompt text, created_by text, workspace text, artifact_globs jsonb, request_id text, attachments text, ask text, approval text`),
		tableColumn{name: "last_event", kind: "bigint", from: "max(last_event, (SELECT coalesce(max(e.seq), 0) FROM task_events e WHERE e.task = llm_tasks.seq))"})},
	{name: "leases", key: "seq", order: "seq", step: 1000, columns: columnsOf(`seq bigint, id uuid, task_id uuid, worker_id text, epoch bigint, status text,
		started_at bigint, expires_at bigint, ttl_seconds integer, last_heartbeat bigint, context_id text,
		tokens bigint, tokens_in bigint, tokens_out bigint, cost bigint`)},
	{name: "workers", key: "rowid", order: "id", byText: true, step: 1 << 40, columns: columnsOf(`id text, node_id text, url text, status text, claude_cli boolean,
		max_concurrency integer, labels jsonb, last_heartbeat bigint, ip_addrs jsonb, obs_count bigint, db_sha text, registered_at bigint, agent_version text,
		os_info text, install_method text, instance_id text, instance_seen bigint, draining boolean, removed boolean,
		control_draining boolean, posted_at bigint, agents jsonb, pause jsonb, setup jsonb`)},
	{name: "runtime_artifacts", key: "seq", order: "seq", step: 100, columns: columnsOf(`seq bigint, id uuid, task_id uuid, job_id text, type text,
		created_at bigint, finalized boolean, url text, entity_refs jsonb, tags jsonb, size bigint, sha256 text, media_type text, content text,
		displaced boolean, epoch bigint, path text`)},
	{name: "run_transcripts", key: "task", order: "task", step: 1000, columns: columnsOf(`task bigint, upto bigint, due boolean`)},
	{name: "llm_results", key: "seq", order: "task_id, epoch", step: 1000, columns: columnsOf(`id uuid, task_id uuid, epoch bigint, worker_id text,
		artifact_id uuid, status text, error_class text, metrics jsonb, completed_at bigint, body_hash text, error_message text`)},
	{name: "task_events", key: "task", order: "task, seq", step: 100, columns: columnsOf(`task bigint, seq bigint, type text, at bigint, epoch bigint,
		worker_seq bigint, data text`)},
	{name: "audit_logs", key: "seq", order: "seq", step: 1000, columns: columnsOf(`seq bigint, id uuid, timestamp bigint, action text, entity_type text,
		entity_id text, actor text, detail text, data json, key_id text, address text`)},
	{name: "audit_chain", key: "seq", order: "seq", step: 5000, columns: append(columnsOf(`seq bigint, removed_at bigint`),
		tableColumn{name: "hash", kind: "bytea", from: `'\x' || lower(hex(hash))`})},
	{name: "api_keys", key: "seq", order: "seq", step: 1000, columns: columnsOf(`seq bigint, id text, name text, role text, worker_id text, digest text,
		created_at bigint, created_by text, expires_at bigint, last_used_at bigint, revoked_at bigint`)},
	{name: "schedules", key: "rowid", order: "name", byText: true, step: 1 << 40, columns: columnsOf(`name text, spec text, created_at bigint, created_by text,
		next_at bigint, recent text`)},
	{name: "approvals", key: "seq", order: "seq", step: 100, columns: columnsOf(`seq bigint, id uuid, task_id uuid, context_id text, worker_id text, kind text,
		tool text, tool_use_id text, input text, input_sha256 text, readable text, status text, asked_at bigint, expires_at bigint, decided_at bigint,
		decided_by text, message text, answers text, used_by text`)},
	{name: "removed_contents", key: "seq", order: "seq", step: 1000, columns: columnsOf(`seq bigint, url text, removed_at bigint`)},
	{name: "contexts", key: "seq", order: "seq", step: 1000, columns: columnsOf(`seq bigint, id text, created_at bigint, last_used_at bigint,
		updated_at bigint, tasks bigint, unfinished bigint, tokens bigint, cost_nano bigint, worker_id text, name text, folded text, pinned boolean`)},
	{name: "transcripts", key: "rowid", order: "context_id", byText: true, step: 1 << 40, columns: columnsOf(`context_id text, folder text, updated_at bigint,
		size bigint, session_id text, sha256 text, parts text, workspace text, workspace_size bigint`)},
	{name: "forgotten_contexts", key: "seq", order: "seq", step: 1000, columns: columnsOf(`seq bigint, at bigint, context_id text`)},
	{name: "runtime_settings", key: "1", order: "key", byText: true, step: 1, columns: columnsOf(`key text, value text, updated_at bigint`)},
	{name: "task_series", key: "at", order: "at", step: 1 << 40, columns: columnsOf(`at bigint, created bigint, started bigint, completed bigint, failed bigint,
		dead bigint, cancelled bigint, tokens bigint, tokens_in bigint, tokens_out bigint, cost bigint, queued bigint, running bigint, wait bigint`)},
	{name: "users", key: "rowid", order: "id", byText: true, step: 1 << 40, columns: columnsOf(`id text, username text, password text, role text, created_at bigint`)},
}

// neverReused are the tables whose numbers must not be reused.
var neverReused = []string{"removed_contents", "forgotten_contexts"}

// finishImport sets the counters of stats, and the sequences to continue after the copied rows.
const finishImport = `
UPDATE counters SET queued = 0, leased = 0, running = 0, completed = 0, failed = 0, dead = 0, cancelled = 0, leases = 0, active = 0;
UPDATE counters c SET queued = t.queued, leased = t.leased, running = t.running, completed = t.completed, failed = t.failed, dead = t.dead,
	cancelled = t.cancelled, leases = l.leases, active = l.active
FROM (SELECT count(*) FILTER (WHERE status = 'queued') queued, count(*) FILTER (WHERE status = 'leased') leased,
		count(*) FILTER (WHERE status = 'running') running, count(*) FILTER (WHERE status = 'completed') completed,
		count(*) FILTER (WHERE status = 'failed') failed, count(*) FILTER (WHERE status = 'dead') dead,
		count(*) FILTER (WHERE status = 'cancelled') cancelled FROM llm_tasks) t,
	(SELECT count(*) leases, count(*) FILTER (WHERE status = 'active') active FROM leases) l
WHERE c.slot = 0;
UPDATE search_fill SET below = (SELECT coalesce(max(seq) + 1, 0) FROM llm_tasks);
SELECT setval('llm_tasks_seq', greatest(1, (SELECT max(seq) FROM llm_tasks), (SELECT max(seq) FROM contexts)));
SELECT setval(pg_get_serial_sequence('leases', 'seq'), greatest(1, (SELECT max(seq) FROM leases)));
SELECT setval(pg_get_serial_sequence('runtime_artifacts', 'seq'), greatest(1, (SELECT max(seq) FROM runtime_artifacts)));
SELECT setval(pg_get_serial_sequence('audit_logs', 'seq'), greatest(1, (SELECT max(seq) FROM audit_logs)));
SELECT setval(pg_get_serial_sequence('approvals', 'seq'), greatest(1, (SELECT max(seq) FROM approvals)));
SELECT setval(pg_get_serial_sequence('api_keys', 'seq'), greatest(1, (SELECT max(seq) FROM api_keys)));
ANALYZE`
