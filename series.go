package bloom

import (
	"context"
	"time"
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

// SeriesPoint counts what happened to tasks during one step of the time series. It counts
// transitions: a task that is requeued and completes twice counts twice.
type SeriesPoint struct {
	At        int64 `json:"at" doc:"Start of the step, Unix milliseconds"`
	Created   int64 `json:"created"`
	Started   int64 `json:"started" doc:"Attempts that started running"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`

	TokensUsed   int64   `json:"tokens_used" doc:"Of attempts that ended"`
	InputTokens  int64   `json:"input_tokens" doc:"Only of runs that report input and output separately"`
	OutputTokens int64   `json:"output_tokens" doc:"Only of runs that report input and output separately"`
	CostUSD      float64 `json:"cost_usd"`

	Queued     *int64 `json:"queued" doc:"Maximum number of waiting tasks, sampled each minute; null when not sampled"`
	Running    *int64 `json:"running" doc:"Maximum number of leased or running tasks, sampled each minute; null when not sampled"`
	OldestWait *int64 `json:"oldest_wait_ms" doc:"Longest wait of a task that could start, sampled each minute; null when none waited or not sampled"`
}

// Series is a time series over a period.
type Series struct {
	From   int64         `json:"from" doc:"Unix milliseconds, at the start of a step"`
	To     int64         `json:"to" doc:"Unix milliseconds, exclusive"`
	Step   int64         `json:"step" doc:"Milliseconds per point"`
	Points []SeriesPoint `json:"points" nullable:"false" doc:"One for each step, oldest first"`
	Now    QueueGauge    `json:"now"`
}

// QueueGauge is the state of the queue at a moment.
type QueueGauge struct {
	Queued     int64  `json:"queued"`
	Running    int64  `json:"running" doc:"Leased or running"`
	Usage      Usage  `json:"usage" doc:"What running attempts have used so far, as their workers last reported; the points count it when the attempts end"`
	OldestWait *int64 `json:"oldest_wait_ms" doc:"Longest wait of a task that could start and is first in its queue (tasks with the same labels and priority); null when none waits"`
}

// SeriesStore keeps the time series. The transactions that change tasks update it; tasks are never
// counted for it.
type SeriesStore interface {
	// Series lists the steps that start in [from, to), in Unix milliseconds; step is
	// in milliseconds. All three are multiples of a minute. Steps without any activity are left
	// out.
	Series(ctx context.Context, from, to, step int64) ([]SeriesPoint, error)
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
