package bloom

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
