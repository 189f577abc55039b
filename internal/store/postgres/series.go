package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// counterSlots is the number of rows over which the counters are spread.
const counterSlots = 64

// parameters returns n parameters, from the first on.
func parameters(first, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("$%d::bigint", first+i)
	}
	return names
}

// addCounts adds to the first unlocked slot of the counters from the connection's own
// on, and fails if there is none. addSeries also adds to the same slot of the series'
// minute, which therefore needs no lock.
var addCounts, addSeries = func() (counts, series string) {
	sets := make([]string, len(store.CountColumns))
	for i, p := range parameters(2, len(sets)) {
		sets[i] = store.CountColumns[i] + " = " + store.CountColumns[i] + " + " + p
	}
	held := `WITH changed AS (UPDATE counters SET ` + strings.Join(sets, ", ") + ` WHERE slot = (
			SELECT c.slot FROM counters c WHERE c.slot >= $1 ORDER BY c.slot LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING slot)`
	const ok = ` SELECT 1 / count(*)::int FROM changed`
	values := strings.Join(parameters(2+len(sets), 1+len(store.SeriesColumns)), ", ")
	return held + ok, held + `, charted AS (INSERT INTO task_series (slot, at, ` + store.SeriesNames + `) SELECT slot, ` + values + ` FROM changed
		ON CONFLICT (at, slot) DO UPDATE SET ` + store.SeriesAdd + `)` + ok
}()

// queueCounts adds to the counters and the series. It comes last, so that the slot is
// locked for the shortest time.
func (t *tx) queueCounts(b *pgx.Batch, c *store.Changes) {
	charts := c.Series != (store.Series{})
	if c.Counts == (store.Counts{}) && !charts {
		return
	}
	statement, args := addCounts, []any{t.c.PgConn().PID() % (counterSlots / 2)}
	for _, n := range c.Counts {
		args = append(args, n)
	}
	if charts {
		statement, args = addSeries, append(args, store.Minute(c.Now))
		for _, n := range c.Series {
			args = append(args, n)
		}
	}
	b.Queue(statement, args...).Exec(func(pgconn.CommandTag) error { return nil })
}

// queueGauge samples the queue, folds old minutes and removes old rows. No other
// statement writes old rows.
func queueGauge(b *pgx.Batch, c *store.Changes) {
	g := c.Gauge
	if g == nil {
		return
	}
	b.Queue(`INSERT INTO task_series (at, slot, queued, running, wait) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (at, slot) DO UPDATE SET queued = excluded.queued, running = excluded.running, wait = excluded.wait`,
		store.Minute(c.Now), store.GaugeSlot, g.Queued, g.Running, g.Wait)
	b.Queue(`WITH old AS (DELETE FROM task_series WHERE at < $1 AND (at % 3600000 <> 0 OR slot <> 0) RETURNING *)
		INSERT INTO task_series (at, slot, `+store.SeriesNames+`, queued, running, wait)
			SELECT at / 3600000 * 3600000, 0, `+store.SeriesSum+`, max(queued), max(running), max(wait) FROM old GROUP BY 1
		ON CONFLICT (at, slot) DO UPDATE SET `+store.SeriesAdd+`, queued = greatest(task_series.queued, excluded.queued),
			running = greatest(task_series.running, excluded.running), wait = greatest(task_series.wait, excluded.wait)`, g.Fold)
	b.Queue(`DELETE FROM task_series WHERE at < $1`, g.Drop)
}

// OldestWaiting steps through the label keys and priorities in the queue's index and
// reads the first task of each.
func (d *database) OldestWaiting(ctx context.Context) (int64, error) {
	const head = `SELECT t.label_key, t.priority, t.run_at FROM llm_tasks t WHERE t.gate = 'open' AND `
	const next = ` ORDER BY t.label_key, t.priority DESC, t.seq LIMIT 1`
	return store.Read(ctx, d, func(c store.Conn) (int64, error) {
		return store.One(ctx, c, store.Self[int64], nil, `WITH RECURSIVE heads AS (
				(`+head+`t.label_key >= ''`+next+`)
				UNION ALL
				SELECT n.* FROM heads h, LATERAL (
					SELECT x.* FROM ((`+head+`t.label_key = h.label_key AND t.priority < h.priority`+next+`)
						UNION ALL (`+head+`t.label_key > h.label_key`+next+`)) x ORDER BY x.label_key LIMIT 1) n)
			SELECT coalesce(min(run_at), 0) FROM (SELECT run_at FROM heads LIMIT $1) h`, contract.MaxWaitingLines)
	})
}
