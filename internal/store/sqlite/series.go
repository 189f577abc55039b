package sqlite

import (
	"context"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// sums are the series' columns, each as of says.
func sums(of func(column string) string) string {
	columns := make([]string, len(store.SeriesColumns))
	for i, c := range store.SeriesColumns {
		columns[i] = of(c)
	}
	return strings.Join(columns, ", ")
}

var (
	seriesNames = strings.Join(store.SeriesColumns, ", ")
	seriesAdd   = sums(func(c string) string { return c + " = " + c + " + excluded." + c })
	seriesSum   = sums(func(c string) string { return "SUM(" + c + ")" })
	addSeries   = `INSERT INTO task_series (at, ` + seriesNames + `) VALUES (?` + strings.Repeat(",?", len(store.SeriesColumns)) + `)
		ON CONFLICT (at) DO UPDATE SET ` + seriesAdd
	foldSeries = `INSERT INTO task_series (at, ` + seriesNames + `, queued, running, wait)
		SELECT at / 3600000 * 3600000, ` + seriesSum + `, MAX(queued), MAX(running), MAX(wait)
			FROM task_series WHERE at < ? AND at % 3600000 <> 0 GROUP BY 1
		ON CONFLICT (at) DO UPDATE SET ` + seriesAdd + `,
			queued = MAX(COALESCE(queued, excluded.queued), COALESCE(excluded.queued, queued)),
			running = MAX(COALESCE(running, excluded.running), COALESCE(excluded.running, running)),
			wait = MAX(COALESCE(wait, excluded.wait), COALESCE(excluded.wait, wait))`
)

// chart adds to the time series, samples the queue, and folds and removes what is old.
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

// Series adds up the time series by steps.
func (d *database) Series(ctx context.Context, from, to, step int64) ([]bloom.SeriesPoint, error) {
	return read(ctx, d, func(c *conn) ([]bloom.SeriesPoint, error) {
		return collect(c, func(r row) bloom.SeriesPoint {
			return bloom.SeriesPoint{
				At: r.int(0), Created: r.int(1), Started: r.int(2), Completed: r.int(3), Failed: r.int(4), Dead: r.int(5), Cancelled: r.int(6),
				TokensUsed: r.int(7), InputTokens: r.int(8), OutputTokens: r.int(9), CostUSD: bloom.Dollars(r.int(10)),
				Queued: r.intp(11), Running: r.intp(12), OldestWait: r.intp(13),
			}
		}, `SELECT at / ?3 * ?3 AS step, `+seriesSum+`, MAX(queued), MAX(running), MAX(wait)
			FROM task_series WHERE at >= ?1 AND at < ?2 GROUP BY step ORDER BY step LIMIT +?4`, from, to, step, bloom.MaxSeriesPoints)
	})
}

// OldestWaiting goes from line to line of the queue's index and reads the first of
// each.
func (d *database) OldestWaiting(ctx context.Context) (int64, error) {
	return read(ctx, d, func(c *conn) (oldest int64, err error) {
		const head = `SELECT label_key, priority, run_at FROM llm_tasks INDEXED BY llm_tasks_queue WHERE status = 'queued' AND gate = 'open' AND `
		r, ok, err := c.one(head + `label_key >= '' ORDER BY label_key, priority DESC, seq LIMIT 1`)
		for n := 0; ok && err == nil && n < bloom.MaxWaitingLines; n++ {
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
