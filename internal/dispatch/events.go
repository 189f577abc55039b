package dispatch

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/bloom-runtime/bloom"
)

// AppendEvents adds a worker's events under its current lease and answers with
// the number of the stream's last one.
func (s *Service) AppendEvents(ctx context.Context, taskID, leaseID string, events []bloom.WorkerEvent) (int64, error) {
	if !isID(taskID) {
		return 0, bloom.ErrTaskNotFound
	}
	if !isID(leaseID) {
		return 0, bloom.ErrLeaseLost
	}
	for i, e := range events {
		events[i].Type, events[i].Data = bloom.CleanText(e.Type), bloom.EventData(e.Data)
		if string(events[i].Data) == "null" {
			events[i].Data = json.RawMessage("{}")
		}
	}
	return s.store.AppendEvents(ctx, taskID, leaseID, events)
}

// eventPage is how many events are read at once.
const eventPage = 256

// Stream is one reader's place in a task's stream. It is for one goroutine.
type Stream struct {
	s      *Service
	taskID string
	last   int64
	feed   *taskFeed
	stop   func()
	past   past
}

// Stream opens a task's stream after the event numbered after. finished says
// that the task has ended and there is nothing more to read. The caller closes
// the stream in any case.
func (s *Service) Stream(ctx context.Context, taskID string, after int64) (stream *Stream, finished bool, err error) {
	task, err := s.Task(ctx, taskID)
	if err != nil {
		return nil, false, err
	}
	feed, stop := s.feeds.watchTask(taskID)
	stream = &Stream{s: s, taskID: taskID, last: after, feed: feed, stop: stop}
	if !task.Status.Terminal() {
		return stream, false, nil
	}
	rest, err := s.store.Events(ctx, taskID, after, 1)
	var last int64
	if err == nil && len(rest) == 0 {
		last, err = stream.lastTranscribed(ctx)
	}
	if err != nil {
		stop()
		return nil, false, err
	}
	return stream, len(rest) == 0 && last <= after, nil
}

// Close ends the stream.
func (st *Stream) Close() {
	st.stop()
	st.past.close()
}

// Next waits for more events, for at most idle. It answers with none when the
// time is up, so that the caller can show the line is alive, and with done when
// the stream has ended: after the terminal event, or because the service is
// closing.
func (st *Stream) Next(ctx context.Context, idle time.Duration) (events []bloom.Event, done bool, err error) {
	deadline := time.NewTimer(idle)
	defer deadline.Stop()
	for {
		events, done, err := st.look(ctx)
		if err != nil || done || len(events) > 0 {
			return events, done, err
		}
		if up := st.wait(ctx, deadline.C); up {
			return nil, false, ctx.Err()
		}
		select {
		case <-st.s.closing:
			return nil, true, nil
		default:
		}
	}
}

// look reads what there is. Whether the task has ended is asked before the
// stream is read: what a later event says cannot be missed then.
func (st *Stream) look(ctx context.Context) (events []bloom.Event, done bool, err error) {
	if events, err = st.page(ctx, false); err != nil || len(events) > 0 {
		return events, false, err
	}
	task, err := st.s.store.Task(ctx, st.taskID)
	if err != nil || !task.Status.Terminal() {
		return nil, false, err
	}
	events, err = st.page(ctx, true)
	return events, err == nil && len(events) == 0, err
}

// page is the next page of the stream. What was removed of it is read from the run's
// transcripts, where it lies in one.
func (st *Stream) page(ctx context.Context, ended bool) (events []bloom.Event, err error) {
	events, err = st.s.store.Events(ctx, st.taskID, st.last, eventPage)
	if err != nil {
		return nil, err
	}
	if len(events) > 0 && events[0].Seq > st.last+1 || len(events) == 0 && ended {
		old, err := st.transcribed(ctx)
		if err != nil {
			return nil, err
		}
		if len(old) > 0 {
			events = old
		}
	}
	if len(events) > 0 {
		st.last = events[len(events)-1].Seq
	}
	return events, nil
}

// wait returns when something may have happened; up reports that the reader has
// to be heard first.
func (st *Stream) wait(ctx context.Context, deadline <-chan time.Time) (up bool) {
	poll := time.NewTimer(jittered(st.s.poll))
	defer poll.Stop()
	select {
	case <-st.feed.signal:
	case <-poll.C:
	case <-st.s.closing:
	case <-deadline:
		return true
	case <-ctx.Done():
		return true
	}
	return false
}

// jittered is d give or take a quarter, so that those who wait do not all look
// at once.
func jittered(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}
