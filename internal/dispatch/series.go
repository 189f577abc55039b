package dispatch

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
)

// defaultSeries is how long a time series is when its beginning is not named.
const defaultSeries = 24 * time.Hour

// Series is the time series between two times, Unix milliseconds, in steps of so many
// seconds. 0 stands for the last day, until now, and the finest step that there is for
// the whole of it. A step that is finer is raised to that: minutes become hours after
// bloom.SeriesMinutes.
func (s *Service) Series(ctx context.Context, from, to, stepSec int64) (bloom.Series, error) {
	now := bloom.Millis(s.clock.Now())
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
	case n > bloom.MaxSeriesPoints:
		details = []bloom.FieldError{{Field: "step", Message: "is too small: there would be more than 2500 points"}}
	}
	if details != nil {
		return out, bloom.Invalid("The time series cannot be given: "+details[0].Field+" "+details[0].Message, details...)
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
	if from < now-bloom.SeriesMinutes.Milliseconds() {
		least = hour
	}
	switch {
	case asked > least && asked%least == 0:
		return asked
	case asked > least: // 90 minutes of a time that is kept by the hour
		return (asked/least + 1) * least
	case asked > 0 || to-from <= defaultSeries.Milliseconds()+minute:
		return least
	}
	return hour
}

// dense has a point for every step.
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

// queueGauge is the queue at the moment.
func (s *Service) queueGauge(ctx context.Context, now int64) (g bloom.QueueGauge, err error) {
	st, err := s.store.Stats(ctx)
	if err != nil {
		return g, err
	}
	since, err := s.store.OldestWaiting(ctx)
	by := st.Tasks.ByStatus
	g.Queued, g.Running = by[bloom.TaskQueued], by[bloom.TaskLeased]+by[bloom.TaskRunning]
	if since > 0 {
		wait := max(0, now-since)
		g.OldestWait = &wait
	}
	return g, err
}
