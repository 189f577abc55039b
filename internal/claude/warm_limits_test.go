package claude_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestAMachineKeepsAsManyProcessesAsItsMemoryAllows(t *testing.T) {
	t.Parallel()
	for gib, want := range map[int64]int{0: 0, 1: 0, 2: 1, 4: 2, 8: 4, 16: 8, 256: 8} {
		if got := claude.DefaultWarm(gib << 30); got != want {
			t.Errorf("%d GiB keep %d processes, want %d", gib, got, want)
		}
	}
	if got := claude.DefaultWarm(2<<30 - 1); got != 0 {
		t.Errorf("a machine with less than 2 GiB keeps %d", got)
	}
}

func TestAProcessThatIsNotUsedEnds(t *testing.T) {
	t.Parallel()
	h := newWarmHouse(t, 1, standin.Sequence(standin.Reply{Text: "ok"}))
	claude.LimitWarm(h.runner(), 50*time.Millisecond, 0, nil)
	wantSuccess(t, first(h.run(task("one"))), "ok")
	eventually(t, "the process ends", func() bool { return len(processesIn(t, h.config.Workdir)) == 0 })
}

func TestProcessesEndWhileTheMachineIsShortOfMemory(t *testing.T) {
	t.Parallel()
	h := newWarmHouse(t, 3, standin.Sequence(standin.Reply{Text: "ok"}))
	var free atomic.Int64
	free.Store(8 << 30)
	claude.LimitWarm(h.runner(), 0, 0, free.Load)
	wantSuccess(t, first(h.run(in("a", "one"))), "ok")
	wantSuccess(t, first(h.run(in("b", "one"))), "ok")
	if len(processesIn(t, h.config.Workdir)) == 0 {
		t.Fatal("nothing was kept")
	}
	free.Store(100 << 20)
	eventually(t, "the processes end, also the spare one", func() bool { return len(processesIn(t, h.config.Workdir)) == 0 })
	run, j := h.run(in("a", "two"))
	wantSuccess(t, run, "ok")
	if got := kinds(j); got != "new" {
		t.Errorf("the process was %q", got)
	}
	eventually(t, "none is kept", func() bool { return len(processesIn(t, h.config.Workdir)) == 0 })
}

func TestAProcessThatHasGrownIsReplaced(t *testing.T) {
	t.Parallel()
	h := newWarmHouse(t, 1, standin.Sequence(standin.Reply{Text: "ok"}))
	claude.LimitWarm(h.runner(), 0, 1<<20, nil)
	for range 2 {
		run, j := h.run(task("one"))
		wantSuccess(t, run, "ok")
		if got := kinds(j); got != "new" {
			t.Errorf("the process was %q", got)
		}
	}
}

func TestTheSpareProcessWaitsForATaskThatItFits(t *testing.T) {
	t.Parallel()
	h := newWarmHouse(t, 3, standin.Sequence(standin.Reply{Text: `{"a":1}`}))
	h.runner().Prepare()
	eventually(t, "a spare process waits", func() bool { return len(processesIn(t, h.config.Workdir)) > 0 })
	asked := in("a", "one")
	asked.DesiredFormat = bloom.FormatJSON
	_, j := h.run(asked)
	if got := kinds(j); got != "new" {
		t.Errorf("a task that wants JSON has the process %q", got)
	}
	_, j = h.run(in("b", "one"))
	if got := kinds(j); got != "spare" {
		t.Errorf("a plain task has the process %q, want the spare one", got)
	}
}

func TestTheSpareProcessIsReplacedWhenSettingsHaveChanged(t *testing.T) {
	t.Parallel()
	h := newWarmHouse(t, 4, standin.Sequence(standin.Reply{Text: "ok"}))
	h.runner().Prepare()
	eventually(t, "a spare process waits", func() bool { return len(processesIn(t, h.config.Workdir)) > 0 })
	writeFile(t, filepath.Join(h.home, ".claude", "settings.json"), `{"env":{"A":"b"}}`)
	for i, want := range []string{"new", "spare"} { // the first task's end replaces it
		_, j := h.run(in(fmt.Sprint(i), "one"))
		if got := kinds(j); got != want {
			t.Errorf("task %d has the process %q, want %q", i, got, want)
		}
	}
}

func TestACancelledTurnIsInterruptedFirstAndKilledAfterTheGrace(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "claude")
	deaf := `read -r prompt; init s; did; trap '' TERM; read -r line; echo "$line" >interrupted; while :; do sleep 1; done`
	if err := os.WriteFile(script, []byte(fmt.Sprintf(fickle, deaf)), 0o755); err != nil {
		t.Fatal(err)
	}
	h := newWarmHouse(t, 1, standin.Sequence())
	h.config.Path, h.config.Grace = script, 2*time.Second
	wantSuccess(t, first(h.run(task("one"))), "first")
	ctx, cancel := context.WithCancelCause(t.Context())
	runner, done := h.runner(), make(chan bloom.Run)
	go func() { done <- runner.Run(ctx, task("two"), nil) }()
	waitForFile(t, filepath.Join(h.config.Workdir, "did"))
	cancel(bloom.ErrCancelled)
	wantError(t, <-done, bloom.ClassCancelled)
	if raw, err := os.ReadFile(filepath.Join(h.config.Workdir, "interrupted")); !strings.Contains(string(raw), `"interrupt"`) {
		t.Errorf("it was sent %q, %v", raw, err)
	}
	if left := processesIn(t, h.config.Workdir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}
