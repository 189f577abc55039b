package sqlite

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

const contextColumns = `x.id, x.tasks, x.unfinished, x.tokens, x.cost_nano, x.worker_id, x.created_at, x.last_used_at, x.updated_at`

func scanContext(r row) bloom.Context {
	return bloom.Context{
		ID: r.str(0), Tasks: r.int(1), Unfinished: r.int(2), Tokens: r.int(3), CostUSD: bloom.Dollars(r.int(4)), WorkerID: r.strp(5),
		CreatedAt: r.int(6), LastUsedAt: r.int(7), UpdatedAt: r.int(8),
	}
}

// Context reads one context.
func (d *database) Context(ctx context.Context, id string) (bloom.Context, error) {
	return read(ctx, d, func(c *conn) (bloom.Context, error) {
		return found(c, scanContext, bloom.ErrContextNotFound, `SELECT `+contextColumns+` FROM contexts x WHERE x.id = ?`, id)
	})
}

// Contexts lists contexts, the one with the newest task first.
func (d *database) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	l := listing[bloom.Context]{table: "contexts", columns: contextColumns, scan: scanContext}
	pg, err := read(ctx, d, func(c *conn) (page[bloom.Context], error) { return l.page(c, q.Page) })
	return pg.items, pg.next, err
}

// Unfilled lists the newest of the tasks that are in no context yet.
func (d *database) Unfilled(ctx context.Context, limit int) (below int64, ids []string, err error) {
	ids, err = read(ctx, d, func(c *conn) ([]string, error) {
		if below, err = c.number(`SELECT below FROM context_fill`); err != nil || below == 0 {
			return nil, err
		}
		return collect(c, func(r row) string { return r.str(0) }, `SELECT id FROM llm_tasks WHERE seq < ? ORDER BY seq DESC LIMIT ?`, below, limit)
	})
	return below, ids, err
}

func (t *tx) loadContexts(want *store.ReadSet, rows *store.Rows) error {
	if want.Filled {
		below, err := t.number(`SELECT below FROM context_fill`)
		if err != nil {
			return err
		}
		rows.Filled = &below
	}
	return load(want.Spent, rows.Spent, func(task string) (store.Spent, error) {
		r, ok, err := t.one(`SELECT CAST(TOTAL(MIN(json_extract(m, '$.tokens_used'), ?2)) AS INTEGER),
				CAST(ROUND(TOTAL(MIN(json_extract(m, '$.cost_usd'), ?3)) * 1e9) AS INTEGER)
			FROM (SELECT CASE WHEN json_valid(metrics) THEN metrics ELSE '{}' END AS m FROM llm_results WHERE task_id = ?1)`, task, bloom.MaxTokens, int64(bloom.MaxCostUSD))
		if err != nil || !ok {
			return store.Spent{}, err
		}
		return store.Spent{Tokens: r.int(0), CostNano: r.int(1)}, nil
	})
}

// addToContext adds a difference. The worker of an older task (?11) is only taken
// where there is none.
const addToContext = `INSERT INTO contexts AS c (id, seq, created_at, last_used_at, updated_at, tasks, unfinished, tokens, cost_nano, worker_id)
	VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)
	ON CONFLICT (id) DO UPDATE SET seq = MAX(c.seq, ?2), created_at = MIN(c.created_at, ?3), last_used_at = MAX(c.last_used_at, ?4),
		updated_at = MAX(c.updated_at, ?5), tasks = c.tasks + ?6, unfinished = c.unfinished + ?7, tokens = c.tokens + ?8, cost_nano = c.cost_nano + ?9,
		worker_id = CASE WHEN ?11 THEN COALESCE(c.worker_id, ?10) ELSE COALESCE(?10, c.worker_id) END`

func (t *tx) putContexts(c *store.Changes) error {
	for _, x := range c.ContextsInOrder() {
		if _, err := t.exec(addToContext, x.ID, x.Seq, x.CreatedAt, x.LastUsedAt, x.UpdatedAt, x.Tasks, x.Unfinished, x.Tokens, x.CostNano, x.WorkerID,
			c.Filled != nil); err != nil {
			return err
		}
	}
	if c.Filled == nil {
		return nil
	}
	return t.set(`UPDATE context_fill SET below = ?`, *c.Filled)
}
