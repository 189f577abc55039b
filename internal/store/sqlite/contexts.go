package sqlite

import "github.com/bloom-runtime/bloom/internal/store"

// addToContext adds increments to a context.
const addToContext = `INSERT INTO contexts AS c (id, seq, created_at, last_used_at, updated_at, tasks, unfinished, tokens, cost_nano, worker_id)
	VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)
	ON CONFLICT (id) DO UPDATE SET seq = MAX(c.seq, ?2), created_at = MIN(c.created_at, ?3), last_used_at = MAX(c.last_used_at, ?4),
		updated_at = MAX(c.updated_at, ?5), tasks = c.tasks + ?6, unfinished = c.unfinished + ?7, tokens = c.tokens + ?8, cost_nano = c.cost_nano + ?9,
		worker_id = COALESCE(?10, c.worker_id)`

// workedInContext adds the increments of a transaction without new tasks. It does not
// touch the index of contexts.
const workedInContext = `UPDATE contexts SET updated_at = MAX(updated_at, ?2), unfinished = unfinished + ?3, tokens = tokens + ?4,
	cost_nano = cost_nano + ?5, worker_id = COALESCE(?6, worker_id) WHERE id = ?1`

func (t *tx) putContexts(c *store.Changes) error {
	for _, x := range c.ContextsInOrder() {
		if x.Tasks == 0 {
			n, err := t.exec(workedInContext, x.ID, x.UpdatedAt, x.Unfinished, x.Tokens, x.CostNano, x.WorkerID)
			if err != nil {
				return err
			}
			if n > 0 {
				continue
			}
		}
		if _, err := t.exec(addToContext, x.ID, x.Seq, x.CreatedAt, x.LastUsedAt, x.UpdatedAt, x.Tasks, x.Unfinished, x.Tokens, x.CostNano, x.WorkerID); err != nil {
			return err
		}
	}
	return nil
}
