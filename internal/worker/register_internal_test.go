package worker

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

type handClock struct{ now time.Time }

func (c *handClock) Now() time.Time { return c.now }

func TestAnOutagesPresentReasonIsLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	clock := &handClock{time.Unix(1_800_000_000, 0)}
	w := &Worker{log: slog.New(slog.NewTextHandler(&out, nil)), cfg: Config{Clock: clock}}
	w.outbox = newOutbox(t.TempDir(), Config{}, w.log, nil, nil)
	fails := func(after time.Duration, reason string, want int) {
		t.Helper()
		clock.now = clock.now.Add(after)
		out.Reset()
		w.disconnected(errors.New(reason))
		if got := strings.Count(out.String(), reason); got != want {
			t.Errorf("%s, %v later: logged %d times, want %d", reason, after, got, want)
		}
	}
	fails(0, "connection refused", 1)
	fails(time.Second, "connection refused", 0)
	fails(time.Second, "the certificate expired 1 s ago", 0)
	fails(reasonEvery, "the certificate expired 61 s ago", 1)
	fails(time.Second, "the certificate expired 62 s ago", 0)
	fails(reasonEvery, "the certificate expired 61 s ago", 0)
	w.connected()
	fails(time.Second, "connection refused", 1)
}
