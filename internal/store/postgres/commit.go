package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/store"
)

// queue adds the statements that write the changes to a batch: few for each kind of
// change, with many rows each.
func (t *tx) queue(b *pgx.Batch, c *store.Changes) {
	updateTasks.queue(b, c.Tasks)
	insertTasks.queue(b, c.NewTasks)
	updateLeases.queue(b, c.Leases) // before new leases: a task may have only one active lease
	insertLeases.queue(b, c.NewLeases)
	insertArtifacts.queue(b, c.NewArtifacts())
	insertResults.queue(b, c.Outcomes)
	moveArtifacts.queue(b, c.Moves)
	ended, kept := c.Streams()
	endStreams.queue(b, ended)
	keepStreams.queue(b, kept)
	insertEvents.queue(b, c.Events)
	insertAudits.queue(b, c.Audits)
	insertLinks.queue(b, c.Links)
	putWorkers.queue(b, c.Workers)
	putKeys.queue(b, c.APIKeys)
	putSessions.queue(b, c.Sessions)
	for _, s := range dialect.Rest(c) {
		b.Queue(s.Query, s.Args...)
	}
	queueGauge(b, c)
	queueContexts(b, c) // late, because other transactions may wait for these rows
	t.queueCounts(b, c)
}

// bulk is a statement that writes rows: one text for one row, and one for many, with an
// array for each column. A text for each number of rows runs no faster, and each connection
// would have to prepare it.
type bulk[T any] struct {
	columns   []string                      // name and type of each
	values    func(args []any, row T) []any // in the order of the columns
	one, many string
}

// maxRows bounds the rows of one statement, because the server copies all of them before it writes any.
const maxRows = 128

// newBulk builds both texts by calling text with the columns' names, the rows, and their number.
func newBulk[T any](columns []string, values func([]any, T) []any, text func(names, rows, count string) string) *bulk[T] {
	names, row, arrays := make([]string, len(columns)), make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		name, kind, _ := strings.Cut(c, " ")
		names[i], row[i] = name, fmt.Sprintf("$%d::%s", i+1, kind)
		switch kind {
		case "uuid", "json", "jsonb": // passed as texts
			arrays[i] = fmt.Sprintf("$%d::text[]::%s[]", i+1, kind)
		default:
			arrays[i] = row[i] + "[]"
		}
	}
	list := strings.Join(names, ", ")
	return &bulk[T]{
		columns: columns, values: values, one: text(list, "(VALUES ("+strings.Join(row, ", ")+"))", "1"),
		many: text(list, "unnest("+strings.Join(arrays, ", ")+")", "cardinality("+arrays[0]+")"),
	}
}

func (k *bulk[T]) queue(b *pgx.Batch, rows []T) {
	for len(rows) > 0 {
		now := rows[:min(len(rows), maxRows)]
		rows = rows[len(now):]
		row := make([]any, 0, len(k.columns))
		if len(now) == 1 {
			b.Queue(k.one, k.values(row, now[0])...)
			continue
		}
		all, arrays := make([]any, len(now)*len(k.columns)), make([]any, len(k.columns))
		for r := range now {
			row = k.values(row[:0], now[r])
			for c, v := range row {
				all[c*len(now)+r] = v
			}
		}
		for c := range arrays {
			arrays[c] = all[c*len(now) : (c+1)*len(now)]
		}
		b.Queue(k.many, arrays...)
	}
}

// inserts returns the insert of rows into a table.
func inserts[T any](t *store.Table[T]) *bulk[T] {
	return newBulk(t.Columns, t.Values, func(_, rows, _ string) string { return t.Statement("SELECT * FROM " + rows + " x") })
}

var (
	insertTasks     = inserts(store.Tasks)
	insertLeases    = inserts(store.Leases)
	insertArtifacts = inserts(store.Artifacts)
	insertResults   = inserts(store.Results)
	insertEvents    = inserts(store.Events)
	insertAudits    = inserts(store.Audits)
	insertLinks     = inserts(store.ChainLinks)
	endStreams      = inserts(store.EndedStreams)
	keepStreams     = inserts(store.KeptStreams)
	putWorkers      = inserts(store.Workers)
	putKeys         = inserts(store.Keys)
	putSessions     = inserts(store.Sessions)
)

// updates changes locked rows, and fails if one does not exist.
func updates[T any](table, key, set, columns string, values func([]any, T) []any) *bulk[T] {
	return newBulk(strings.Split(columns, ", "), values, func(names, rows, count string) string {
		return fmt.Sprintf(`WITH changed AS (UPDATE %s t SET %s FROM %s x (%s) WHERE t.%s = x.%s RETURNING 1)
			SELECT 1 / (count(*) = %s)::int FROM changed`, table, set, rows, names, key, key, count)
	})
}

var updateTasks = updates("llm_tasks", "seq",
	`status = x.status, gate = x.gate, updated_at = x.updated_at, lease_id = x.lease_id, worker_id = x.worker_id, attempts = x.attempts,
		run_at = x.run_at, error_class = x.error_class, cancel_requested = x.cancel_requested, epoch = x.epoch, preferred_worker = x.preferred,
		preferred_until = x.until, last_event = x.last_event`,
	"seq bigint, status text, gate text, updated_at bigint, lease_id uuid, worker_id text, attempts int, "+
		"run_at bigint, error_class text, cancel_requested bool, epoch bigint, preferred text, until bigint, last_event bigint",
	func(v []any, k *store.Task) []any {
		return append(v, k.Seq, string(k.Status), store.Gate(k.Gate), k.UpdatedAt, k.LeaseID, k.WorkerID, k.Attempts,
			k.RunAt, k.ErrorClass, k.CancelRequested, k.Epoch, k.Preferred, k.Until, k.LastEvent)
	})

var updateLeases = updates("leases", "id",
	`status = x.status, expires_at = x.expires_at, last_heartbeat = x.last_heartbeat,
		tokens = x.tokens, tokens_in = x.tokens_in, tokens_out = x.tokens_out, cost = x.cost`,
	"id uuid, status text, expires_at bigint, last_heartbeat bigint, tokens bigint, tokens_in bigint, tokens_out bigint, cost bigint",
	func(v []any, l *store.Lease) []any {
		return append(v, l.ID, string(l.Status), l.ExpiresAt, l.LastHeartbeat,
			l.Usage.TokensUsed, l.Usage.InputTokens, l.Usage.OutputTokens, l.Usage.CostNano())
	})

var moveArtifacts = updates("runtime_artifacts", "id", `url = x.url, content = NULL, displaced = false`, "id uuid, url text",
	func(v []any, m store.Move) []any { return append(v, m.ID, m.URL) })
