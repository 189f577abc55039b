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
)

// Bounds of what one task's events may take while the server is away, and of
// one request.
const (
	maxQueued      = 8192
	maxQueuedBytes = 8 << 20
	maxBatch       = 512
	maxBatchBytes  = 700 << 10 // a batch must stay under the wire's 1 MB
)

// eventSender sends one lease's events in order: at once while nothing is under way,
// gathered into the next batch while a request is. When more gathers than
// memory allows, the middle is dropped: how a run began and how it goes now
// tell more than what lies between.
type eventSender struct {
	client  *client.Client
	taskID  string
	leaseID string
	clock   bloom.Clock
	log     *slog.Logger
	lost    func() // the server says that the lease is not ours

	mu      sync.Mutex
	queue   []bloom.WorkerEvent
	bytes   int
	seq     int64
	dropped int64
	closed  bool          // no more events are taken
	signal  chan struct{} // has a value when there is something to look at
	drained chan struct{} // closed when run has returned
}

func newEventSender(c *client.Client, taskID, leaseID string, clock bloom.Clock, log *slog.Logger, lost func()) *eventSender {
	return &eventSender{
		client: c, taskID: taskID, leaseID: leaseID, clock: clock, log: log, lost: lost,
		signal: make(chan struct{}, 1), drained: make(chan struct{}),
	}
}

// emit takes an event. It never blocks on anything but another emit.
func (p *eventSender) emit(typ string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		raw = bloom.MustJSON(map[string]string{"message": "an event of type " + typ + " could not be encoded"})
		typ = "log"
	}
	raw = bloom.EventData(raw)
	typ = cut(cmp.Or(typ, "log"), 64)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.seq++
	p.queue = append(p.queue, bloom.WorkerEvent{Seq: p.seq, Type: typ, At: bloom.Millis(p.clock.Now()), Data: raw})
	p.bytes += len(raw)
	if len(p.queue) > maxQueued || p.bytes > maxQueuedBytes {
		p.dropMiddle()
	}
	p.nudge()
}

// dropMiddle keeps the first quarter and the newer half, and puts one event
// that says so, under the number of the first dropped one.
func (p *eventSender) dropMiddle() {
	const quarter = 4
	var from, to int
	for size := 0; from < len(p.queue)-1 && from < maxQueued/quarter; from++ {
		// From the place where events were dropped before, so that it grows
		// instead of there being many.
		if size += len(p.queue[from].Data); size > maxQueuedBytes/quarter || p.queue[from].Type == markerType {
			break
		}
	}
	kept := p.bytes
	for to = from; to < len(p.queue)-1; to++ {
		if len(p.queue)-(to-from) <= maxQueued/2 && kept <= maxQueuedBytes/2 {
			break
		}
		kept -= len(p.queue[to].Data)
	}
	if to <= from {
		return
	}
	marker := p.queue[from]
	for _, e := range p.queue[from:to] {
		if e.Type != markerType {
			p.dropped++
		}
	}
	marker.Type = markerType
	marker.Data = bloom.MustJSON(map[string]any{
		"message": fmt.Sprintf("%d events were dropped here: the server was away for too long", p.dropped), "dropped": p.dropped,
	})
	p.queue = slices.Replace(p.queue, from, to, marker)
	p.bytes = kept + len(marker.Data)
}

// markerType is the type of the event that stands for dropped ones.
const markerType = "events_dropped"

func (p *eventSender) nudge() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// run sends until the event sender is closed and empty, or ctx ends.
func (p *eventSender) run(ctx context.Context) {
	defer close(p.drained)
	pace := client.Retry{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	for {
		batch, closed := p.take()
		if len(batch) == 0 {
			if closed {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-p.signal:
			}
			continue
		}
		for n := 0; len(batch) > 0; n++ {
			var again bool
			if batch, again = p.send(ctx, batch); !again {
				break
			}
			if retry.Sleep(ctx, pace.Wait(n, nil)) != nil {
				return
			}
		}
	}
}

// take cuts the next batch off the queue.
func (p *eventSender) take() (batch []bloom.WorkerEvent, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, size := 0, 0
	for n < len(p.queue) && n < maxBatch {
		size += len(p.queue[n].Data) + 100
		if n > 0 && size > maxBatchBytes {
			break
		}
		n++
	}
	batch = slices.Clone(p.queue[:n])
	p.queue = slices.Delete(p.queue, 0, n)
	for _, e := range batch {
		p.bytes -= len(e.Data)
	}
	return batch, p.closed
}

// send makes one try; again says that what is answered must be tried again.
func (p *eventSender) send(ctx context.Context, batch []bloom.WorkerEvent) (rest []bloom.WorkerEvent, again bool) {
	err := p.client.AppendEvents(ctx, p.taskID, p.leaseID, batch)
	switch {
	case err == nil:
		return nil, false
	case errors.Is(err, bloom.ErrLeaseLost):
		p.lost()
		return nil, false
	case ctx.Err() != nil:
		return nil, false
	case !refused(err):
		return batch, true
	case len(batch) > 1:
		// One of them is what the server will not take; the others shall pass.
		for _, e := range batch {
			for one, more := []bloom.WorkerEvent{e}, true; more; {
				if one, more = p.send(ctx, one); more && retry.Sleep(ctx, time.Second) != nil {
					return nil, false
				}
			}
		}
		return nil, false
	}
	p.log.Warn("the server refused an event; it is dropped", "type", batch[0].Type, "error", err)
	return nil, false
}

// close takes no more events and waits, for at most wait, until those there are
// were sent. An event sender whose run was never started is only closed.
func (p *eventSender) close(wait time.Duration) {
	p.mu.Lock()
	p.closed = true
	p.nudge()
	p.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-p.drained:
	case <-t.C:
	}
}
