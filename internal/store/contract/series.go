package contract

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Resolution and length of the time series.
const (
	// SeriesMinutes is how long the series is kept by the minute, at least.
	SeriesMinutes = 25 * time.Hour
	// SeriesHours is how long it is kept by the hour, before it is removed.
	SeriesHours = 90 * 24 * time.Hour
	// MaxSeriesPoints bounds the points of one answer.
	MaxSeriesPoints = 2500
)

// SeriesStore keeps the time series. The transactions that change tasks update it; tasks are never
// counted for it.
type SeriesStore interface {
	// Series lists the steps that start in [from, to), in Unix milliseconds; step is
	// in milliseconds. All three are multiples of a minute. Steps without any activity are left
	// out.
	Series(ctx context.Context, from, to, step int64) ([]bloom.SeriesPoint, error)
	// OldestWaiting returns since when the longest-waiting task that could start has waited, Unix
	// milliseconds; 0 when none waits. It looks at the first task of each queue (tasks with the
	// same labels and priority), and at no more than MaxWaitingLines queues.
	OldestWaiting(ctx context.Context) (int64, error)
	// KeepSeries samples the queue, folds minutes older than SeriesMinutes into hours, and removes
	// hours older than SeriesHours. Several processes may call it, each about once a minute.
	KeepSeries(ctx context.Context) error
}

// MaxWaitingLines is how many queues OldestWaiting looks at.
const MaxWaitingLines = 200
