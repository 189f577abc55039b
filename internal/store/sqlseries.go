package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// each formats every column and joins the results with commas.
func each(columns []string, format string) string {
	entries := make([]string, len(columns))
	for i, c := range columns {
		entries[i] = fmt.Sprintf(format, c)
	}
	return strings.Join(entries, ", ")
}

// Lists of the time series' summed columns.
var (
	SeriesNames = each(SeriesColumns, "%s")
	// SeriesAdd adds to an existing row.
	SeriesAdd = each(SeriesColumns, "%[1]s = task_series.%[1]s + excluded.%[1]s")
	// SeriesSum sums rows.
	SeriesSum = each(SeriesColumns, "CAST(sum(%s) AS BIGINT)")
)

// Series reads the time series, summed by steps.
func (r *Reads) Series(ctx context.Context, from, to, step int64) ([]bloom.SeriesPoint, error) {
	return all(ctx, r, func(p *bloom.SeriesPoint) []any {
		return []any{&p.At, &p.Created, &p.Started, &p.Completed, &p.Failed, &p.Dead, &p.Cancelled, &p.TokensUsed, &p.InputTokens, &p.OutputTokens,
			(*nanos)(&p.CostUSD), &p.Queued, &p.Running, &p.OldestWait}
	}, `SELECT at / CAST($3 AS BIGINT) * CAST($3 AS BIGINT) AS step, `+SeriesSum+`, max(queued), max(running), max(wait)
		FROM task_series WHERE at >= $1 AND at < $2 GROUP BY 1 ORDER BY 1 LIMIT CAST($4 AS BIGINT)`, from, to, step, bloom.MaxSeriesPoints)
}
