package store

import "time"

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
