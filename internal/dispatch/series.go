package dispatch

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// defaultSeries is the length of a time series without a beginning.
const defaultSeries = 24 * time.Hour

// Series returns the time series between two times in Unix milliseconds, in steps of
// stepSec seconds. A from of 0 means one day before to, and a to of 0 means now. A
// stepSec of 0, or one that is too fine, becomes the finest step of the whole range:
// minutes become hours after contract.SeriesMinutes.
func (s *Service) Series(ctx context.Context, from, to, stepSec int64) (bloom.Series, error) {
	now := timing.Millis(s.clock.Now())
	if to == 0 {
		to = now
	}
	if from == 0 {
		from = to - defaultSeries.Milliseconds()
	}
	out := bloom.Series{Step: seriesStep(now, from, to, stepSec*1000)}
	out.From, out.To = from-from%out.Step, (to+out.Step-1)/out.Step*out.Step
	var details []bloom.FieldError
	switch n := (out.To - out.From) / out.Step; {
	case to <= from:
		details = []bloom.FieldError{{Field: "to", Message: "must be after from"}}
	case n > contract.MaxSeriesPoints:
		details = []bloom.FieldError{{Field: "step", Message: "is too small: there would be more than 2500 points"}}
	}
	if details != nil {
		return out, bloom.Invalid("The time series is not available: "+details[0].Field+" "+details[0].Message, details...)
	}
	points, err := s.store.Series(ctx, out.From, out.To, out.Step)
	if err != nil {
		return out, err
	}
	out.Points = dense(points, out)
	out.Now, err = s.queueGauge(ctx, now)
	return out, err
}

// seriesStep is the step in milliseconds.
func seriesStep(now, from, to, asked int64) int64 {
	minute, hour := time.Minute.Milliseconds(), time.Hour.Milliseconds()
	least := minute
	if from < now-contract.SeriesMinutes.Milliseconds() {
		least = hour
	}
	switch {
	case asked > least && asked%least == 0:
		return asked
	case asked > least: // such as 90 minutes where only hours are kept
		return (asked/least + 1) * least
	case asked > 0 || to-from <= defaultSeries.Milliseconds()+minute:
		return least
	}
	return hour
}

// dense returns the points with one for every step.
func dense(points []bloom.SeriesPoint, s bloom.Series) []bloom.SeriesPoint {
	all := make([]bloom.SeriesPoint, 0, (s.To-s.From)/s.Step)
	for at := s.From; at < s.To; at += s.Step {
		for len(points) > 0 && points[0].At < at {
			points = points[1:]
		}
		p := bloom.SeriesPoint{At: at}
		if len(points) > 0 && points[0].At == at {
			p = points[0]
		}
		all = append(all, p)
	}
	return all
}

// queueGauge reads the present state of the queue.
func (s *Service) queueGauge(ctx context.Context, now int64) (g bloom.QueueGauge, err error) {
	st, err := s.store.Stats(ctx)
	if err != nil {
		return g, err
	}
	since, err := s.store.OldestWaiting(ctx)
	by := st.Tasks.ByStatus
	g.Queued, g.Running = by[bloom.TaskQueued], by[bloom.TaskLeased]+by[bloom.TaskRunning]
	g.Usage = st.Leases.Usage
	if since > 0 {
		wait := max(0, now-since)
		g.OldestWait = &wait
	}
	return g, err
}
