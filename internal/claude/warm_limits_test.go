package claude_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
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
	h := newWarmHarness(t, 1, standin.Sequence(standin.Reply{Text: "ok"}))
	claude.LimitWarm(h.runner(), 50*time.Millisecond, 0, nil)
	wantSuccess(t, first(h.run(task("one"))), "ok")
	eventually(t, "the process ends", func() bool { return len(processesIn(t, h.config.Workdir)) == 0 })
}

func TestProcessesEndWhileTheMachineIsShortOfMemory(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 3, standin.Sequence(standin.Reply{Text: "ok"}))
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
	h := newWarmHarness(t, 1, standin.Sequence(standin.Reply{Text: "ok"}))
	claude.LimitWarm(h.runner(), 0, 1<<20, nil)
	for range 2 {
		run, j := h.run(task("one"))
		wantSuccess(t, run, "ok")
		if got := kinds(j); got != "new" {
			t.Errorf("the process was %q", got)
		}
	}
}

func TestAProcessThatGrowsFromTurnToTurnIsReplaced(t *testing.T) {
	t.Parallel()
	const grows = `read -r prompt; turn second; read -r prompt; x=$(head -c 30000000 /dev/zero | tr '\0' x); turn third; read -r prompt; turn fourth`
	h := newFickleHarness(t, grows)
	claude.LimitGrowth(h.runner(), 20<<20)
	for i, want := range []string{"first", "second", "third", "fresh"} {
		run, j := h.run(task("go on"))
		wantSuccess(t, run, want)
		if got := kinds(j); (got == "living") != (i == 1 || i == 2) {
			t.Errorf("task %d has the process %q", i, got)
		}
	}
}

func TestTheSpareProcessWaitsForATaskThatItFits(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 3, standin.Sequence(standin.Reply{Text: `{"a":1}`}))
	claude.PrepareFor(h.runner(), "nobody")
	eventually(t, "a spare process waits", func() bool { return len(supervisorsIn(h.config.Workdir)) > 0 })
	waiting := supervisorsIn(h.config.Workdir)
	asked := in("a", "one")
	asked.DesiredFormat = bloom.FormatJSON
	_, j := h.run(asked)
	if got := kinds(j); got != "new" {
		t.Errorf("a task that wants JSON has the process %q", got)
	}
	if now := supervisorsIn(h.config.Workdir); len(waiting) != 1 || !slices.Contains(now, waiting[0]) {
		t.Errorf("the spare process was ended for a task that it does not fit: %v, then %v", waiting, now)
	}
	_, j = h.run(in("b", "one"))
	if got := kinds(j); got != "spare" {
		t.Errorf("a plain task has the process %q, want the spare one", got)
	}
}

// supervisorsIn are the processes in a folder that are ours, each with a claude.
func supervisorsIn(dir string) (pids []string) {
	status, _ := filepath.Glob("/proc/[0-9]*/status") // its pattern is right
	for _, file := range status {
		in, err := os.Readlink(filepath.Join(filepath.Dir(file), "cwd"))
		if err != nil || in != dir {
			continue
		}
		if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

func TestTheSpareProcessIsReplacedWhenSettingsHaveChanged(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 4, standin.Sequence(standin.Reply{Text: "ok"}))
	claude.PrepareFor(h.runner(), "nobody")
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
	h := newFickleHarness(t, `read -r prompt; init 11111111-1111-4111-8111-111111111111; did; trap '' TERM; read -r line; echo "$line" >interrupted; while :; do sleep 1; done`)
	h.config.Grace = 5 * time.Second
	wantSuccess(t, first(h.run(task("one"))), "first")
	ctx, cancel := context.WithCancelCause(t.Context())
	runner, done := h.runner(), make(chan attempt.Run)
	go func() { done <- runner.Run(ctx, task("two"), nil) }()
	waitForFile(t, filepath.Join(h.config.Workdir, "did"))
	cancel(attempt.ErrCancelled)
	wantError(t, <-done, bloom.ClassCancelled)
	if raw, err := os.ReadFile(filepath.Join(h.config.Workdir, "interrupted")); !strings.Contains(string(raw), `"interrupt"`) {
		t.Errorf("it was sent %q, %v", raw, err)
	}
	if left := processesIn(t, h.config.Workdir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// The spare process waits for the program's version, which takes longer than the task may.
func TestATaskWaitsForASpareProcessNoLongerThanItsTime(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 2, standin.Sequence())
	asked := filepath.Join(h.config.Workdir, "asked")
	h.config.Path = filepath.Join(t.TempDir(), "claude")
	if err := os.WriteFile(h.config.Path, []byte("#!/bin/sh\n[ \"$1\" = --version ] || exit 0\necho $$ >"+asked+"\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	claude.PrepareFor(h.runner(), "nobody")
	waitForFile(t, asked)
	b := task("hello")
	b.Policy.TimeoutSec = 1
	run, _ := h.run(b)
	wantError(t, run, bloom.ClassTimeout)
	raw, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(raw))); err != nil {
		t.Errorf("the task waited until the start had failed: %v", err)
	}
}
