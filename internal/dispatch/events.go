package dispatch

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// AppendEvents appends a worker's events under its current lease and returns the
// number of the stream's last event.
func (s *Service) AppendEvents(ctx context.Context, taskID, leaseID string, events []bloom.WorkerEvent) (int64, error) {
	if !storable.IsID(leaseID) {
		return 0, bloom.ErrLeaseLost
	}
	var size int64
	for i, e := range events {
		size += int64(len(e.Type) + len(e.Data))
		events[i].Type, events[i].Data = storable.Text(e.Type), storable.EventData(e.Data)
		if string(events[i].Data) == "null" {
			events[i].Data = json.RawMessage("{}")
		}
	}
	if err := s.take(ctx, eventQuota, leaseID, size, taskID, leaseID); err != nil {
		return 0, err
	}
	return s.store.AppendEvents(ctx, taskID, leaseID, events)
}

// eventPage is how many events are read at once.
const eventPage = 256

// Stream is one reader's position in a task's stream. It must not be used by several
// goroutines at once.
type Stream struct {
	// Admit, if not nil, is called before each read of up to StreamPageBytes, which fails if it does.
	Admit func(context.Context) error

	s       *Service
	taskID  string
	last    int64
	changed <-chan struct{}
	stop    func()
	log     runLog
}

// StreamPageBytes is the size of the events that Next may return at once.
const StreamPageBytes = contract.MaxEventPageBytes + bloom.MaxEventData

// Stream opens a task's stream after the event numbered after. finished means that
// the task has ended and nothing is left to read. The caller must close the stream if
// err is nil.
func (s *Service) Stream(ctx context.Context, taskID string, after int64) (stream *Stream, finished bool, err error) {
	task, err := s.store.Task(ctx, taskID)
	if err != nil {
		return nil, false, err
	}
	stream = &Stream{s: s, taskID: taskID, last: after}
	stream.changed, stream.stop = s.feeds.watchTask(taskID)
	if !task.Status.Terminal() {
		return stream, false, nil
	}
	rest, err := s.store.Events(ctx, taskID, after, 1)
	var last int64
	if err == nil && len(rest) == 0 {
		last, err = stream.lastLogged(ctx)
	}
	if err != nil {
		stream.stop()
		return nil, false, err
	}
	return stream, len(rest) == 0 && last <= after, nil
}

// Close ends the stream.
func (st *Stream) Close() {
	st.stop()
	st.log.close()
}

// Next waits for more events, up to idle. It returns none when that time is over, so
// that the caller can send a keep-alive. done means that the stream has ended: after
// the terminal event, or because the service is closing.
func (st *Stream) Next(ctx context.Context, idle time.Duration) (events []bloom.Event, done bool, err error) {
	deadline := time.NewTimer(idle)
	defer deadline.Stop()
	for {
		events, done, err := st.read(ctx)
		if err != nil || done || len(events) > 0 {
			return events, done, err
		}
		poll := time.NewTimer(jittered(st.s.poll))
		select {
		case <-st.changed:
		case <-poll.C:
		case <-st.s.closing:
			return nil, true, nil
		case <-deadline.C:
			return nil, false, ctx.Err()
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		poll.Stop()
	}
}

// read reads the next events. It checks whether the task has ended before the last
// read, so that it cannot miss the terminal event.
func (st *Stream) read(ctx context.Context) (events []bloom.Event, done bool, err error) {
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

// page reads the next page of the stream. It reads removed events from the
// run logs.
func (st *Stream) page(ctx context.Context, ended bool) (events []bloom.Event, err error) {
	if st.Admit != nil {
		if err := st.Admit(ctx); err != nil {
			return nil, err
		}
	}
	events, err = st.s.store.Events(ctx, st.taskID, st.last, eventPage)
	if err != nil {
		return nil, err
	}
	if len(events) > 0 && events[0].Seq > st.last+1 || len(events) == 0 && ended {
		old, err := st.logged(ctx)
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

// jittered returns d plus or minus a quarter, so that waiting polls do not all read
// at once.
func jittered(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}
