package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/schema"
)

// flush writes what the operations made and commits, in one round trip. A kind
// of change is one statement, however many rows it has. What was recalled is not
// locked yet: that happens here, in the order of load.
func (t *tx) flush() error {
	b := &pgx.Batch{}
	if t.recalled && len(t.newLeases) > 0 {
		lockSlotsOf(b, column(t.newLeases, func(l *lease) string { return l.WorkerID }))
	}
	slices.SortFunc(t.dirty, func(a, b *task) int { return cmp.Compare(a.seq, b.seq) })
	slices.SortFunc(t.moved, func(a, b *lease) int { return cmp.Compare(a.ID, b.ID) })
	updateTasks.queue(b, t.dirty)
	insertTasks.queue(b, t.newTasks)
	if len(t.opened) > 0 {
		b.Queue(prefer, t.s.testNow(), t.opened, bloom.StickyGrace.Milliseconds())
	}
	updateLeases.queue(b, t.moved)
	insertLeases.queue(b, t.newLeases)
	insertArtifacts.queue(b, t.artifacts)
	insertResults.queue(b, t.outcomes)
	insertEvents.queue(b, t.events)
	insertAudits.queue(b, t.audits)
	t.updateContacts(b)
	if t.recalled {
		t.compare(b)
	}
	t.closing(b)
	return t.send(b)
}

// bulk is a statement that writes many rows: one text for each number of rows, with
// a parameter for every value. Arrays that are taken apart would need one text
// only, but to prepare their taking apart costs the server more than the rows do.
type bulk[T any] struct {
	columns   []string                                 // name and type of each
	statement func(columns, rows string, n int) string // of n VALUES lists
	values    func(args []any, row T) []any            // in the order of the columns
	answer    func(rows []T, answer pgx.Rows) error    // what becomes of the answer; nil: nothing

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
		q := b.Queue(k.text(n), args...)
		if written := rows[:n]; k.answer != nil {
			q.Query(func(answer pgx.Rows) error { return k.answer(written, answer) })
		}
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

// updates changes rows that are as they were read, and fails when one is not.
func updates[T any](table, key, set, columns string, values func([]any, T) []any) *bulk[T] {
	return &bulk[T]{columns: strings.Split(columns, ", "), values: values, statement: func(names, rows string, n int) string {
		return fmt.Sprintf(`WITH changed AS (UPDATE %s t SET %s FROM (VALUES %s) x (%s) WHERE t.%s = x.%s AND t.xmin = x.version RETURNING 1)
			SELECT 1 / (count(*) = %d)::int FROM changed`, table, set, rows, names, key, key, n)
	}}
}

// insertTasks numbers tasks in the order in which they came, and begins their
// streams.
var insertTasks = &bulk[*task]{
	columns: strings.Split(taskValues, ", "),
	statement: func(names, rows string, _ int) string {
		columns := strings.TrimSuffix(names, ", told")
		return `WITH x (` + names + `) AS (VALUES ` + rows + `),
			born AS (INSERT INTO llm_tasks (seq, ` + columns + `) SELECT nextval('llm_tasks_seq'), ` + columns + ` FROM x RETURNING id, seq, created_at),
			begun AS (INSERT INTO task_events (task, seq, at, epoch, type, data)
				SELECT b.seq, 1, b.created_at, 0, '` + bloom.EventCreated + `', x.told FROM born b JOIN x ON x.id = b.id)
			SELECT id, seq FROM born`
	},
	values: func(v []any, k *task) []any {
		return append(v, k.ID, string(k.Status), gateValue(k.gate), k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts, k.MaxAttempts,
			k.RunAt, k.ErrorClass, k.Epoch, k.Policy.Ordered, k.Priority, k.labelKey, k.preferred, k.until,
			k.lastEvent, k.ContextID, k.AgentSlug, k.CreatedAt, string(k.DesiredFormat), k.Policy.TimeoutSec, k.Policy.Budget, schema.ListJSON(k.Labels),
			k.insert.scope, k.IdempotencyKey, k.insert.bodyHash, schema.ListJSON(k.ContextHints), k.Prompt, k.insert.told)
	},
	answer: func(tasks []*task, rows pgx.Rows) error {
		var id string
		var seq int64
		_, err := pgx.ForEachRow(rows, []any{&id, &seq}, func() error {
			tasks[slices.IndexFunc(tasks, func(k *task) bool { return k.ID == id })].seq = seq
			return nil
		})
		return err
	},
}

const taskValues = "id uuid, status text, gate text, updated_at bigint, lease_id uuid, worker_id text, attempts int, max_attempts int, " +
	"run_at bigint, error_class text, epoch bigint, ordered bool, priority int, label_key text, preferred_worker text, preferred_until bigint, " +
	"last_event bigint, context_id text, agent_slug text, created_at bigint, desired_format text, timeout_sec int, budget bigint, labels jsonb, " +
	"idempotency_scope text, idempotency_key text, body_hash text, context_hints jsonb, prompt text, told text"

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
	"seq bigint, version xid, status text, gate text, updated_at bigint, lease_id uuid, worker_id text, attempts int, "+
		"run_at bigint, error_class text, cancel_requested bool, epoch bigint, preferred text, until bigint, last_event bigint",
	func(v []any, k *task) []any {
		return append(v, k.seq, k.version, string(k.Status), gateValue(k.gate), k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts,
			k.RunAt, k.ErrorClass, k.CancelRequested, k.Epoch, k.preferred, k.until, k.lastEvent)
	})

var insertLeases = inserts("leases",
	"id uuid, task_id uuid, worker_id text, epoch bigint, status text, started_at bigint, expires_at bigint, ttl_seconds int, last_heartbeat bigint, context_id text",
	func(v []any, l *lease) []any {
		return append(v, l.ID, l.TaskID, l.WorkerID, l.Epoch, string(l.Status), l.StartedAt, l.ExpiresAt, l.TTLSeconds, l.LastHeartbeat, l.ContextID)
	})

var updateLeases = updates("leases", "id",
	`status = x.status, expires_at = x.expires_at, last_heartbeat = x.last_heartbeat`,
	"id uuid, version xid, status text, expires_at bigint, last_heartbeat bigint",
	func(v []any, l *lease) []any {
		return append(v, l.ID, l.version, string(l.Status), l.ExpiresAt, l.LastHeartbeat)
	})

var insertArtifacts = inserts("runtime_artifacts",
	"id uuid, task_id uuid, type text, created_at bigint, finalized bool, url text, tags jsonb, size bigint, sha256 text, media_type text, content text",
	func(v []any, a *bloom.Artifact) []any {
		return append(v, a.ID, a.TaskID, a.Type, a.CreatedAt, a.Finalized, a.URL, schema.ListJSON(a.Tags), a.Size, a.SHA256, a.MediaType, a.Content)
	})

var insertResults = inserts("llm_results",
	"id uuid, task_id uuid, epoch bigint, worker_id text, artifact_id uuid, status text, error_class text, metrics jsonb, completed_at bigint, "+
		"body_hash text, error_message text",
	func(v []any, o outcome) []any {
		r := o.result
		return append(v, r.ID, r.TaskID, r.Epoch, r.WorkerID, r.ArtifactID, string(r.Status), r.ErrorClass, string(bloom.MustJSON(r.Metrics)), r.CompletedAt,
			o.bodyHash, r.ErrorMessage)
	})

var insertEvents = inserts("task_events",
	"task bigint, seq bigint, at bigint, epoch bigint, worker_seq bigint, type text, data text",
	func(v []any, e event) []any {
		return append(v, e.task, e.seq, e.at, e.epoch, e.workerSeq, e.kind, e.data)
	})

var insertAudits = inserts("audit_logs",
	"id uuid, timestamp bigint, action text, entity_type text, entity_id text, actor text, detail text, data json",
	func(v []any, a bloom.Audit) []any {
		return append(v, a.ID, a.Timestamp, a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, string(a.Data))
	})

// updateContacts notes that workers were heard of, in the order of their names.
func (t *tx) updateContacts(b *pgx.Batch) {
	slices.SortFunc(t.contacts, func(a, b *stored) int { return strings.Compare(a.ID, b.ID) })
	for _, w := range t.contacts {
		b.Queue(`UPDATE workers SET status = CASE WHEN $5 THEN $2 ELSE status END, last_heartbeat = $3, instance_id = $4, instance_seen = $3 WHERE id = $1`,
			w.ID, w.Status, t.now, w.InstanceID, w.back)
	}
}

// prefer makes open tasks wait a little for the worker that last held their
// context, as many as that has room for: free slots less what waits for it already,
// so that what others must pass over stays bounded. It is asked for before the
// transaction's own leases are written.
const prefer = `WITH home AS MATERIALIZED (
		SELECT t.seq, t.gate, l.worker_id, row_number() OVER (PARTITION BY l.worker_id ORDER BY t.seq) AS place, w.max_concurrency
			- (SELECT count(*) FROM leases a WHERE a.worker_id = w.id AND a.status = 'active')
			- (SELECT count(*) FROM llm_tasks p WHERE p.preferred_worker = w.id AND p.preferred_until > ` + nowSQL + `) AS room
		FROM llm_tasks t
		CROSS JOIN LATERAL (SELECT x.worker_id FROM leases x WHERE x.context_id = t.context_id ORDER BY x.seq DESC LIMIT 1) l
		JOIN workers w ON w.id = l.worker_id AND w.status = 'online' AND w.claude_cli AND NOT w.draining AND NOT w.removed
			AND t.labels <@ w.labels
		WHERE t.id = ANY($2::text[]::uuid[]))
	UPDATE llm_tasks t SET preferred_worker = home.worker_id, preferred_until = ` + nowSQL + ` + $3
	FROM home WHERE t.seq = home.seq AND home.gate = 'open' AND home.place <= home.room`

// counterSlots is how many rows the counters are spread over.
const counterSlots = 64

// closing is the last statement before the commit. It tells the version that the
// written rows have, and the server's time, from which a transaction that had to
// guess it may not have been far.
const (
	closingColumns = `, ` + nowSQL + `, 1 / (abs(` + nowSQL + ` - $2) <= 1000)::int`
	closingAlone   = `SELECT pg_current_xact_id_if_assigned()::xid` + closingColumns
)

var closingCounts = func() string {
	sets := make([]string, len(countColumns))
	for i, c := range countColumns {
		sets[i] = fmt.Sprintf("%s = %s + $%d", c, c, i+4)
	}
	return `UPDATE counters SET ` + strings.Join(sets, ", ") + ` WHERE slot = $3 RETURNING xmin` + closingColumns
}()

// closing adds the counts, last of all so that others who share the slot wait the
// least.
func (t *tx) closing(b *pgx.Batch) {
	var guessed *int64
	if t.recalled {
		guessed = &t.now
	}
	query, args := closingAlone, []any{t.s.testNow(), guessed}
	if t.counts != (counts{}) {
		query, args = closingCounts, append(args, t.c.PgConn().PID()%counterSlots)
		for _, n := range t.counts {
			args = append(args, n)
		}
	}
	b.Queue(query, args...).QueryRow(func(row pgx.Row) error {
		var version *uint32
		err := row.Scan(&version, &t.until, nil)
		if version != nil {
			t.version = *version
		}
		return err
	})
}
