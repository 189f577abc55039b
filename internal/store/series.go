package store

import (
	"context"
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// addToSeries counts a change of a task's status in the time series.
func (u *Unit) addToSeries(from, to bloom.TaskStatus) {
	n := &u.c.Series
	switch to {
	case bloom.TaskQueued:
		if from == "" {
			n[seriesCreated]++
		}
	case bloom.TaskRunning:
		n[seriesStarted]++
	case bloom.TaskCompleted:
		n[seriesCompleted]++
	case bloom.TaskFailed:
		n[seriesFailed]++
	case bloom.TaskDead:
		n[seriesDead]++
	case bloom.TaskCancelled:
		n[seriesCancelled]++
	case bloom.TaskLeased:
	}
	if from == bloom.TaskLeased && (to == bloom.TaskCompleted || to == bloom.TaskFailed) {
		n[seriesStarted]++ // it ended before the first heartbeat
	}
}

// countUsage adds what an attempt has used to the time series and its context, when its lease
// ends. A completion after the lease has expired replaces what was counted then.
func (u *Unit) countUsage(t *Task, was bloom.Lease, used bloom.Usage) {
	var counted bloom.Usage
	if was.Status != bloom.LeaseActive {
		counted = was.Usage
	}
	if used == counted {
		return
	}
	tokens, cost := used.TokensUsed-counted.TokensUsed, used.CostNano()-counted.CostNano()
	n := &u.c.Series
	n[seriesTokens] += tokens
	n[seriesTokensIn] += used.InputTokens - counted.InputTokens
	n[seriesTokensOut] += used.OutputTokens - counted.OutputTokens
	n[seriesCost] += cost
	x := u.contextChange(t)
	x.Tokens += tokens
	x.CostNano += cost
}

// KeepSeries adds a sample of the queue, folds old minutes into hours, and removes
// old hours.
func (s *Store) KeepSeries(ctx context.Context) error {
	stats, err := s.Stats(ctx)
	if err != nil {
		return s.explain(err)
	}
	since, err := s.db.OldestWaiting(ctx)
	if err != nil {
		return s.explain(err)
	}
	_, err = do(ctx, s, func(*Rows) {}, func(u *Unit) (struct{}, error) {
		tasks := stats.Tasks.ByStatus
		g := &Gauge{Queued: tasks[bloom.TaskQueued], Running: tasks[bloom.TaskLeased] + tasks[bloom.TaskRunning]}
		if since > 0 {
			wait := max(0, u.Now-since)
			g.Wait = &wait
		}
		g.Fold = u.Now - contract.SeriesMinutes.Milliseconds()
		g.Fold -= g.Fold % time.Hour.Milliseconds()
		g.Drop = u.Now - contract.SeriesHours.Milliseconds()
		u.changed()
		u.c.Gauge = g
		return struct{}{}, nil
	})
	return err
}

// Counts is what a transaction adds to the counters of stats, in the order of
// CountColumns.
type Counts [9]int64

// CountColumns are the columns of the table counters: the statuses of tasks, then the
// leases.
var CountColumns = []string{"queued", "leased", "running", "completed", "failed", "dead", "cancelled", "leases", "active"}

// Indexes of the lease counters.
const (
	CountLeases = 7
	CountActive = 8
)

// Series is what a transaction adds to the present minute of the time series, in the
// order of SeriesColumns.
type Series [10]int64

// SeriesColumns are the summed columns of the table task_series.
var SeriesColumns = []string{"created", "started", "completed", "failed", "dead", "cancelled", "tokens", "tokens_in", "tokens_out", "cost"}

const (
	seriesCreated = iota
	seriesStarted
	seriesCompleted
	seriesFailed
	seriesDead
	seriesCancelled
	seriesTokens
	seriesTokensIn
	seriesTokensOut
	seriesCost
)

// Minute returns the beginning of a time's minute, both in Unix milliseconds.
func Minute(at int64) int64 { return at - at%time.Minute.Milliseconds() }

// GaugeSlot is the slot of the rows with samples. Databases spread the other rows
// over further slots.
const GaugeSlot = -1

// Gauge is a sample of the queue, with the bounds for folding and removing old rows.
type Gauge struct {
	Queued, Running int64
	Wait            *int64 // of the oldest queued task, milliseconds
	Fold            int64  // minutes before this beginning of an hour are folded into hours
	Drop            int64  // rows before this time are removed
}

// selectStats sums the counters' rows, and looks at the active leases and the workers, which are few.
var selectStats = `SELECT c.*, u.*, n.* FROM (SELECT ` + each(CountColumns, "CAST(sum(%s) AS BIGINT)") + ` FROM counters) c,
	(SELECT ` + summedUsage + ` FROM leases l%s WHERE l.status = 'active') u,
	(SELECT count(*), count(*) FILTER (WHERE w.status = 'online') FROM `

// Stats reads the counters.
func (s *Store) Stats(ctx context.Context) (bloom.Stats, error) {
	type row struct {
		n               Counts
		used            bloom.Usage
		workers, online int64
	}
	got, err := single(ctx, s, func(s *row) []any {
		fields := make([]any, 0, len(s.n)+6)
		for i := range s.n {
			fields = append(fields, &s.n[i])
		}
		return append(append(fields, usageFields(&s.used)...), &s.workers, &s.online)
	}, nil, fmt.Sprintf(selectStats, s.sql.Via("leases_held"))+s.sql.present()+`) n`)
	st := bloom.Stats{
		Tasks:   bloom.TaskStats{ByStatus: map[bloom.TaskStatus]int64{}},
		Leases:  bloom.LeaseStats{Total: got.n[CountLeases], Active: got.n[CountActive], Usage: got.used},
		Workers: bloom.WorkerStats{Total: got.workers, Online: got.online},
	}
	for i, status := range bloom.TaskStatuses {
		if got.n[i] != 0 {
			st.Tasks.ByStatus[status] = got.n[i]
			st.Tasks.Total += got.n[i]
		}
	}
	return st, err
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
func (s *Store) Series(ctx context.Context, from, to, step int64) ([]bloom.SeriesPoint, error) {
	return all(ctx, s, func(p *bloom.SeriesPoint) []any {
		return []any{&p.At, &p.Created, &p.Started, &p.Completed, &p.Failed, &p.Dead, &p.Cancelled, &p.TokensUsed, &p.InputTokens, &p.OutputTokens,
			(*nanos)(&p.CostUSD), &p.Queued, &p.Running, &p.OldestWait}
	}, `SELECT at / CAST($3 AS BIGINT) * CAST($3 AS BIGINT) AS step, `+SeriesSum+`, max(queued), max(running), max(wait)
		FROM task_series WHERE at >= $1 AND at < $2 GROUP BY 1 ORDER BY 1 LIMIT CAST($4 AS BIGINT)`, from, to, step, contract.MaxSeriesPoints)
}
