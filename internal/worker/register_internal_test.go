package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

type handClock struct{ now time.Time }

func (c *handClock) Now() time.Time { return c.now }

func TestAgentsAndASetupThatChangedAreReportedAgain(t *testing.T) {
	t.Parallel()
	clock := &handClock{time.Unix(1_800_000_000, 0)}
	found := []string{"reviewer"}
	setup := bloom.WorkerSetup{Claude: "2.1.300"}
	w := &Worker{state: &state{}, cfg: Config{Clock: clock, Agents: func(context.Context) []string { return found },
		Setup: func(context.Context) bloom.WorkerSetup { return setup }}}
	reports := func(after time.Duration, want ...string) {
		t.Helper()
		clock.now = clock.now.Add(after)
		w.readAgents(t.Context())
		if got := w.spec().Agents; !slices.Equal(got, want) {
			t.Errorf("it reports %v, want %v", got, want)
		}
		if w.registrationStale() {
			t.Error("what was just reported is reported again")
		}
	}
	reports(0, "reviewer")
	found = []string{"reviewer", "writer"}
	reports(time.Second, "reviewer") // files are not read with every claim
	clock.now = clock.now.Add(agentsEvery)
	w.readAgents(t.Context())
	if !w.registrationStale() {
		t.Error("a new agent is not reported")
	}
	reports(0, "reviewer", "writer")
	setup.Claude = "2.1.301"
	clock.now = clock.now.Add(agentsEvery)
	w.readAgents(t.Context())
	if !w.registrationStale() || w.spec().Setup.Claude != "2.1.301" {
		t.Error("an updated claude is not reported")
	}
}

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
