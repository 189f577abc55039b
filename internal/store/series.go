package store

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
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
func (u *Unit) countUsage(t *Task, was bloom.Lease, used bloom.Usage) error {
	var counted bloom.Usage
	if was.Status != bloom.LeaseActive {
		counted = was.Usage
	}
	if used == counted {
		return nil
	}
	tokens, cost := used.TokensUsed-counted.TokensUsed, used.CostNano()-counted.CostNano()
	n := &u.c.Series
	n[seriesTokens] += tokens
	n[seriesTokensIn] += used.InputTokens - counted.InputTokens
	n[seriesTokensOut] += used.OutputTokens - counted.OutputTokens
	n[seriesCost] += cost
	if inContext, err := u.counted(t); err != nil || !inContext {
		return err
	}
	x := u.contextChange(t)
	x.Tokens += tokens
	x.CostNano += cost
	return nil
}

// KeepSeries adds a sample of the queue, folds old minutes into hours, and removes
// old hours.
func (s *Store) KeepSeries(ctx context.Context) error {
	stats, err := s.db.Stats(ctx)
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
		g.Fold = u.Now - bloom.SeriesMinutes.Milliseconds()
		g.Fold -= g.Fold % time.Hour.Milliseconds()
		g.Drop = u.Now - bloom.SeriesHours.Milliseconds()
		u.changed()
		u.c.Gauge = g
		return struct{}{}, nil
	})
	return err
}
