package sqlite

import (
	"context"
	"strings"

	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var (
	addSeries = `INSERT INTO task_series (at, ` + store.SeriesNames + `) VALUES (?` + strings.Repeat(",?", len(store.SeriesColumns)) + `)
		ON CONFLICT (at) DO UPDATE SET ` + store.SeriesAdd
	foldSeries = `INSERT INTO task_series (at, ` + store.SeriesNames + `, queued, running, wait)
		SELECT at / 3600000 * 3600000, ` + store.SeriesSum + `, MAX(queued), MAX(running), MAX(wait)
			FROM task_series WHERE at < ? AND at % 3600000 <> 0 GROUP BY 1
		ON CONFLICT (at) DO UPDATE SET ` + store.SeriesAdd + `,
			queued = MAX(COALESCE(queued, excluded.queued), COALESCE(excluded.queued, queued)),
			running = MAX(COALESCE(running, excluded.running), COALESCE(excluded.running, running)),
			wait = MAX(COALESCE(wait, excluded.wait), COALESCE(excluded.wait, wait))`
)

// chart adds to the time series, samples the queue, folds old minutes and removes old
// rows.
func (t *tx) chart(c *store.Changes) error {
	minute := store.Minute(c.Now)
	if c.Series != (store.Series{}) {
		args := make([]any, 1, 1+len(c.Series))
		args[0] = minute
		for _, n := range c.Series {
			args = append(args, n)
		}
		if _, err := t.exec(addSeries, args...); err != nil {
			return err
		}
	}
	g := c.Gauge
	if g == nil {
		return nil
	}
	for _, s := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO task_series (at, queued, running, wait) VALUES (?,?,?,?)
			ON CONFLICT (at) DO UPDATE SET queued = excluded.queued, running = excluded.running, wait = excluded.wait`, []any{minute, g.Queued, g.Running, g.Wait}},
		{foldSeries, []any{g.Fold}},
		{`DELETE FROM task_series WHERE at < ?1 AND at % 3600000 <> 0 OR at < ?2`, []any{g.Fold, g.Drop}},
	} {
		if _, err := t.exec(s.query, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// OldestWaiting steps through the label keys and priorities in the queue's index and
// reads the first task of each.
func (d *database) OldestWaiting(ctx context.Context) (int64, error) {
	return store.Read(ctx, d.read, func(q store.Conn) (oldest int64, err error) {
		c := q.(*conn)
		const head = `SELECT label_key, priority, run_at FROM llm_tasks INDEXED BY llm_tasks_queue WHERE gate = 'open' AND `
		r, ok, err := c.one(head + `label_key >= '' ORDER BY label_key, priority DESC, seq LIMIT 1`)
		for n := 0; ok && err == nil && n < contract.MaxWaitingLines; n++ {
			if at := r.int(2); oldest == 0 || at < oldest {
				oldest = at
			}
			key, priority := r.str(0), r.int(1)
			r, ok, err = c.one(head+`label_key = ? AND priority < ? ORDER BY priority DESC, seq LIMIT 1`, key, priority)
			if !ok && err == nil {
				r, ok, err = c.one(head+`label_key > ? ORDER BY label_key, priority DESC, seq LIMIT 1`, key)
			}
		}
		return oldest, err
	})
}
