package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/store"
)

// putContexts adds a transaction's increments to contexts. It waits for other transactions
// that have changed the same rows.
var putContexts = newBulk(strings.Split("id text, seq bigint, created_at bigint, last_used_at bigint, updated_at bigint, tasks bigint, unfinished bigint, "+
	"tokens bigint, cost_nano bigint, worker_id text", ", "), func(names, rows, _ string) string {
	return `INSERT INTO contexts AS c (` + names + `) SELECT * FROM ` + rows + ` x ON CONFLICT (id) DO UPDATE SET seq = greatest(c.seq, excluded.seq),
			created_at = least(c.created_at, excluded.created_at), last_used_at = greatest(c.last_used_at, excluded.last_used_at),
			updated_at = greatest(c.updated_at, excluded.updated_at), tasks = c.tasks + excluded.tasks, unfinished = c.unfinished + excluded.unfinished,
			tokens = c.tokens + excluded.tokens, cost_nano = c.cost_nano + excluded.cost_nano, worker_id = coalesce(excluded.worker_id, c.worker_id)`
})

func queueContexts(b *pgx.Batch, c *store.Changes) {
	var rows [][]any
	for _, x := range c.ContextsInOrder() {
		rows = append(rows, []any{x.ID, x.Seq, x.CreatedAt, x.LastUsedAt, x.UpdatedAt, x.Tasks, x.Unfinished, x.Tokens, x.CostNano, x.WorkerID})
	}
	putContexts.queue(b, rows)
}
