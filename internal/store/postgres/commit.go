package postgres

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/sqldb"
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
	if len(c.Links) > 0 { // hundreds: arrays are cheaper than lists of values
		b.Queue(`INSERT INTO audit_chain (seq, hash) SELECT * FROM unnest($1::bigint[], $2::bytea[])`,
			sqldb.Column(c.Links, func(l store.Link) int64 { return l.Seq }), sqldb.Column(c.Links, func(l store.Link) []byte { return sqldb.Unhex(l.Hash) }))
	}
	putWorkers.queue(b, c.Workers)
	putKeys.queue(b, c.APIKeys)
	putSessions.queue(b, c.Sessions)
	for _, s := range dialect.Rest(c) {
		b.Queue(s.Query, s.Args...)
	}
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
func inserts[T any](t *sqldb.Table[T]) *bulk[T] {
	return &bulk[T]{columns: t.Columns, values: t.Values, statement: func(_, rows string, _ int) string { return t.Statement(rows) }}
}

var (
	insertTasks     = inserts(sqldb.Tasks)
	insertLeases    = inserts(sqldb.Leases)
	insertArtifacts = inserts(sqldb.Artifacts)
	insertResults   = inserts(sqldb.Results)
	insertEvents    = inserts(sqldb.Events)
	insertAudits    = inserts(sqldb.Audits)
	endStreams      = inserts(sqldb.EndedStreams)
	keepStreams     = inserts(sqldb.KeptStreams)
	putWorkers      = inserts(sqldb.Workers)
	putKeys         = inserts(sqldb.Keys)
	putSessions     = inserts(sqldb.Sessions)
)

// updates changes rows that are locked, and fails when one is not there.
func updates[T any](table, key, set, columns string, values func([]any, T) []any) *bulk[T] {
	return &bulk[T]{columns: strings.Split(columns, ", "), values: values, statement: func(names, rows string, n int) string {
		return fmt.Sprintf(`WITH changed AS (UPDATE %s t SET %s FROM (VALUES %s) x (%s) WHERE t.%s = x.%s RETURNING 1)
			SELECT 1 / (count(*) = %d)::int FROM changed`, table, set, rows, names, key, key, n)
	}}
}

var updateTasks = updates("llm_tasks", "seq",
	`status = x.status, gate = x.gate, updated_at = x.updated_at, lease_id = x.lease_id, worker_id = x.worker_id, attempts = x.attempts,
		run_at = x.run_at, error_class = x.error_class, cancel_requested = x.cancel_requested, epoch = x.epoch, preferred_worker = x.preferred,
		preferred_until = x.until, last_event = x.last_event`,
	"seq bigint, status text, gate text, updated_at bigint, lease_id uuid, worker_id text, attempts int, "+
		"run_at bigint, error_class text, cancel_requested bool, epoch bigint, preferred text, until bigint, last_event bigint",
	func(v []any, k *store.Task) []any {
		return append(v, k.Seq, string(k.Status), sqldb.Gate(k.Gate), k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts,
			k.RunAt, k.ErrorClass, k.CancelRequested, k.Epoch, k.Preferred, k.Until, k.LastEvent)
	})

var updateLeases = updates("leases", "id",
	`status = x.status, expires_at = x.expires_at, last_heartbeat = x.last_heartbeat`,
	"id uuid, status text, expires_at bigint, last_heartbeat bigint",
	func(v []any, l *store.Lease) []any {
		return append(v, l.ID, string(l.Status), l.ExpiresAt, l.LastHeartbeat)
	})

var moveArtifacts = updates("runtime_artifacts", "id", `url = x.url, content = NULL, displaced = false`, "id uuid, url text",
	func(v []any, m store.Move) []any { return append(v, m.ID, m.URL) })
