package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Limits of one task's queued events and of one request.
const (
	maxQueued      = 8192
	maxQueuedBytes = 8 << 20
	maxBatch       = 512
	maxBatchBytes  = 700 << 10 // the server takes 1 MB
)

// eventSender sends one lease's events in order. Events that are emitted during a
// request go into the next batch. When the queue exceeds its limits, events in its
// middle are dropped: the beginning of a run and its latest events matter more.
type eventSender struct {
	client  *client.Client
	taskID  string
	leaseID string
	clock   timing.Clock
	log     *slog.Logger
	lost    func() // called when the server says that the lease is lost

	mu      sync.Mutex
	queue   []bloom.WorkerEvent
	bytes   int
	seq     int64
	dropped int64
	closed  bool          // no more events are accepted
	signal  chan struct{} // has a value when run must check the queue
	drained chan struct{} // closed when run has returned
}

func newEventSender(c *client.Client, taskID, leaseID string, clock timing.Clock, log *slog.Logger, lost func()) *eventSender {
	return &eventSender{
		client: c, taskID: taskID, leaseID: leaseID, clock: clock, log: log, lost: lost,
		signal: make(chan struct{}, 1), drained: make(chan struct{}),
	}
}

// emit queues an event. It blocks on nothing but another emit.
func (s *eventSender) emit(typ string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		raw = storable.MustJSON(map[string]string{"message": "an event of type " + typ + " could not be encoded"})
		typ = "log"
	}
	raw = storable.EventData(raw)
	typ = storable.Cut(cmp.Or(typ, "log"), 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.seq++
	s.queue = append(s.queue, bloom.WorkerEvent{Seq: s.seq, Type: typ, At: timing.Millis(s.clock.Now()), Data: raw})
	s.bytes += len(raw)
	if len(s.queue) > maxQueued || s.bytes > maxQueuedBytes {
		s.dropMiddle()
	}
	s.nudge()
}

// dropMiddle keeps the oldest quarter and the newest half of the queue. It replaces the
// others by one event that says so, with the number of the first dropped one.
func (s *eventSender) dropMiddle() {
	const quarter = 4
	var from, to int
	for size := 0; from < len(s.queue)-1 && from < maxQueued/quarter; from++ {
		// Stop at an earlier marker, so that it is replaced instead of adding another.
		if size += len(s.queue[from].Data); size > maxQueuedBytes/quarter || s.queue[from].Type == markerType {
			break
		}
	}
	kept := s.bytes
	for to = from; to < len(s.queue)-1; to++ {
		if len(s.queue)-(to-from) <= maxQueued/2 && kept <= maxQueuedBytes/2 {
			break
		}
		kept -= len(s.queue[to].Data)
	}
	if to <= from {
		return
	}
	marker := s.queue[from]
	for _, e := range s.queue[from:to] {
		if e.Type != markerType {
			s.dropped++
		}
	}
	marker.Type = markerType
	marker.Data = storable.MustJSON(map[string]any{
		"message": fmt.Sprintf("%d events were dropped here, because the server was unavailable for too long", s.dropped), "dropped": s.dropped,
	})
	s.queue = slices.Replace(s.queue, from, to, marker)
	s.bytes = kept + len(marker.Data)
}

// markerType is the type of the event that replaces dropped ones.
const markerType = "events_dropped"

func (s *eventSender) nudge() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// run sends events until the sender is closed and its queue empty, or ctx ends.
func (s *eventSender) run(ctx context.Context) {
	defer close(s.drained)
	pace := client.Retry{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	for {
		batch, closed := s.take()
		if len(batch) == 0 {
			if closed {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-s.signal:
			}
			continue
		}
		for n := 0; len(batch) > 0; n++ {
			var again bool
			if batch, again = s.send(ctx, batch); !again {
				break
			}
			if retry.Sleep(ctx, pace.Wait(n, nil)) != nil {
				return
			}
		}
	}
}

// take removes the next batch from the queue.
func (s *eventSender) take() (batch []bloom.WorkerEvent, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, 0
	for n < len(s.queue) && n < maxBatch {
		size += len(s.queue[n].Data) + 100
		if n > 0 && size > maxBatchBytes {
			break
		}
		n++
	}
	batch = slices.Clone(s.queue[:n])
	s.queue = slices.Delete(s.queue, 0, n)
	for _, e := range batch {
		s.bytes -= len(e.Data)
	}
	return batch, s.closed
}

// send sends a batch once. It returns the events to retry.
func (s *eventSender) send(ctx context.Context, batch []bloom.WorkerEvent) (rest []bloom.WorkerEvent, again bool) {
	err := s.client.AppendEvents(ctx, s.taskID, s.leaseID, batch)
	switch {
	case err == nil:
		return nil, false
	case errors.Is(err, bloom.ErrLeaseLost):
		s.lost()
		return nil, false
	case ctx.Err() != nil:
		return nil, false
	case !refused(err):
		return batch, true
	case len(batch) > 1:
		// Send the events one by one, so that only the invalid ones are dropped.
		for _, e := range batch {
			for one, more := []bloom.WorkerEvent{e}, true; more; {
				if one, more = s.send(ctx, one); more && retry.Sleep(ctx, time.Second) != nil {
					return nil, false
				}
			}
		}
		return nil, false
	}
	s.log.Warn("the server refused an event; it is dropped", "type", batch[0].Type, "error", err)
	return nil, false
}

// close accepts no more events and waits up to wait until the queued ones are sent.
func (s *eventSender) close(wait time.Duration) {
	s.mu.Lock()
	s.closed = true
	s.nudge()
	s.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-s.drained:
	case <-t.C:
	}
}
