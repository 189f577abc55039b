package bloom

import (
	"context"
	"time"
)

// Resolution and length of the time series.
const (
	// SeriesMinutes is how long at least the series is kept by the minute, ...
	SeriesMinutes = 25 * time.Hour
	// ... and SeriesHours how long by the hour, after which it is removed.
	SeriesHours = 90 * 24 * time.Hour
	// MaxSeriesPoints bounds the points of one answer.
	MaxSeriesPoints = 2500
)

// SeriesPoint is what happened to tasks during one step of the time series. Counts
// are of transitions: a task that is requeued and completes twice counts twice.
type SeriesPoint struct {
	At        int64 `json:"at" doc:"When the step begins, Unix milliseconds"`
	Created   int64 `json:"created"`
	Started   int64 `json:"started" doc:"Attempts that began to run"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`

	TokensUsed   int64   `json:"tokens_used"`
	InputTokens  int64   `json:"input_tokens" doc:"Of those runs that told them apart"`
	OutputTokens int64   `json:"output_tokens" doc:"Of those runs that told them apart"`
	CostUSD      float64 `json:"cost_usd"`

	Queued     *int64 `json:"queued" doc:"The most tasks that waited, sampled each minute; null when not sampled"`
	Running    *int64 `json:"running" doc:"The most tasks that were leased or running, sampled each minute; null when not sampled"`
	OldestWait *int64 `json:"oldest_wait_ms" doc:"The longest that a task which could start had waited, sampled each minute; null when none waited or it was not sampled"`
}

// Series is the time series over a while.
type Series struct {
	From   int64         `json:"from" doc:"Unix milliseconds, at a step's beginning"`
	To     int64         `json:"to" doc:"Unix milliseconds, not included"`
	Step   int64         `json:"step" doc:"Milliseconds a point"`
	Points []SeriesPoint `json:"points" nullable:"false" doc:"One for each step, the oldest first"`
	Now    QueueGauge    `json:"now"`
}

// QueueGauge is the queue at a moment.
type QueueGauge struct {
	Queued     int64  `json:"queued"`
	Running    int64  `json:"running" doc:"Leased or running"`
	OldestWait *int64 `json:"oldest_wait_ms" doc:"How long the task that could start and is next in its line has waited, the longest of all lines; null when none waits"`
}

// SeriesStore keeps the time series. The transactions that change tasks count it;
// nothing ever counts tasks for it.
type SeriesStore interface {
	// Series lists the steps that begin at from or later and before to, Unix
	// milliseconds; step is in milliseconds. All three are multiples of a minute. Steps in which nothing happened
	// are left out.
	Series(ctx context.Context, from, to, step int64) ([]SeriesPoint, error)
	// OldestWaiting is since when the task waits that has waited longest of those that
	// could start and are next in line, Unix milliseconds; 0 when none does. Lines are
	// tasks of the same labels and priority; with very many of them not all are looked at.
	OldestWaiting(ctx context.Context) (int64, error)
	// KeepSeries samples the queue, folds minutes that are older than SeriesMinutes
	// into hours, and removes hours that are older than SeriesHours. Any number of
	// processes may call it, about once a minute.
	KeepSeries(ctx context.Context) error
}

// MaxWaitingLines is how many lines Store.OldestWaiting looks at.
const MaxWaitingLines = 200
