package worker

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// TestEventsInTheMiddleAreDroppedWhenTheQueueIsFull fills an event sender that cannot send. It
// reaches inside because the bound is on memory, which no stream shows.
func TestEventsInTheMiddleAreDroppedWhenTheQueueIsFull(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ events, size int }{
		"many small ones":  {events: 5 * maxQueued, size: 10},
		"a few large ones": {events: 64, size: bloom.MaxEventData / 2},
	} {
		p := newEventSender(nil, "task", "lease", timing.System{}, slog.New(slog.DiscardHandler), func() {})
		text := strings.Repeat("x", tc.size)
		for range tc.events {
			p.emit("text", text)
		}
		if len(p.queue) > maxQueued || p.bytes > maxQueuedBytes {
			t.Fatalf("%s: %d events of %d bytes are kept", name, len(p.queue), p.bytes)
		}
		size, markers, dropped := 0, 0, int64(0)
		for i, e := range p.queue {
			size += len(e.Data)
			if i > 0 && e.Seq <= p.queue[i-1].Seq {
				t.Fatalf("%s: event %d follows %d", name, e.Seq, p.queue[i-1].Seq)
			}
			if e.Type == markerType {
				var marker struct{ Dropped int64 }
				if err := json.Unmarshal(e.Data, &marker); err != nil {
					t.Fatal(err)
				}
				markers, dropped = markers+1, marker.Dropped
			}
		}
		if size != p.bytes {
			t.Errorf("%s: counts %d bytes of %d", name, p.bytes, size)
		}
		if first, last := p.queue[0].Seq, p.queue[len(p.queue)-1].Seq; first != 1 || last != int64(tc.events) {
			t.Errorf("%s: keeps %d to %d of %d", name, first, last, tc.events)
		}
		if markers != 1 || int(dropped)+len(p.queue)-markers != tc.events {
			t.Errorf("%s: %d markers; %d dropped and %d kept of %d", name, markers, dropped, len(p.queue)-markers, tc.events)
		}
	}
}
