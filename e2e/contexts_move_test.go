package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestAContextMovesOnlyWhenItsWorkerIsOfflineFullOrDrained moves a context with its working folder
// from worker to worker, each time for another reason. The conversation and the folder arrive
// complete, and without a reason the context stays.
func TestAContextMovesOnlyWhenItsWorkerIsOfflineFullOrDrained(t *testing.T) {
	t.Parallel()
	j := newMovingContext(t)
	j.turn()
	home := j.home
	for range 2 {
		if j.turn(); j.home != home {
			t.Fatalf("the context moved from %s to %s without a reason", home, j.home)
		}
	}

	var filler bloom.Task
	j.moves("full", func() {
		filler = j.submit(t, bloom.TaskSpec{ContextID: "filler", AgentSlug: "nobody", Prompt: "hold", Labels: []string{j.home}, MaxAttempts: 1, Policy: bloom.Policy{TimeoutSec: 600}})
		j.untilAsked("hold", 1)
	})
	close(j.held)
	j.await(t, filler.ID).succeeded("held")
	drained := j.home
	j.moves("drained", func() { j.bloom(t, "", "workers", "drain", drained).want(t, 0, "", "") })
	j.bloom(t, "", "workers", "undrain", drained).want(t, 0, "", "")
	j.moves("offline", func() {
		j.procs[j.home].kill()
		eventually(t, "nothing is left of the killed worker", func() bool { return len(marked(j.markOf(j.home))) == 0 })
	})
}

// movingContext is a context that moves between three workers, each with room for one task.
type movingContext struct {
	*harness
	procs map[string]*proc
	held  chan struct{} // closed when the task that fills a worker may end
	turns []string      // prompts
	home  string        // the worker of the last turn
}

func newMovingContext(t *testing.T) *movingContext {
	t.Helper()
	j := &movingContext{harness: newHarness(t), procs: map[string]*proc{}, held: make(chan struct{})}
	j.serve()
	j.anything(func(r standin.Request) standin.Reply {
		last := r.LastUser()
		_, command, ok := strings.Cut(last, "sh: ")
		switch {
		case strings.Contains(last, "hold"):
			return standin.Reply{Text: "held", Until: j.held}
		case ok && !r.HasToolResult():
			return standin.Tool("", "Bash", map[string]any{"command": command, "description": "work"})
		}
		return standin.Reply{Text: "noted"}
	})
	for _, name := range []string{"one", "two", "three"} {
		j.procs[name] = j.work(workerOptions{name: name, args: []string{"--max-concurrency", "1", "--label", name, "--allowed-tool", "Bash", "--lease-ttl", "30s"}})
		j.procs[name].says("registered")
	}
	return j
}

// turn runs one more task of the context, which adds a line to a file in its folder, and checks
// that nothing of the earlier turns is missing.
func (j *movingContext) turn() outcome {
	j.t.Helper()
	n := len(j.turns)
	text := fmt.Sprintf("<turn %d> sh: echo %d >> list; mkdir -p d; ln -sf ../list d/link", n, n)
	s := bloom.TaskSpec{ContextID: "journey", AgentSlug: "nobody", Prompt: text, MaxAttempts: 3, Policy: bloom.Policy{TimeoutSec: 600, Workspace: bloom.WorkspaceContext}}
	o := j.await(j.t, j.submit(j.t, s).ID)
	o.succeeded("noted")
	j.turns, j.home = append(j.turns, text), *o.task.WorkerID

	requests := j.asked(fmt.Sprintf("<turn %d>", n))
	got := requests[len(requests)-1].Conversation()
	for i := range j.turns {
		if times := strings.Count(got, fmt.Sprintf("<turn %d>", i)); times != 1 {
			j.t.Errorf("turn %d is %d times in the conversation of turn %d on %s:\n%s", i, times, n, j.home, got)
		}
	}
	want := ""
	for i := range j.turns {
		want += fmt.Sprintln(i)
	}
	sum := sha256.Sum256([]byte("journey"))
	list, err := os.ReadFile(filepath.Join(j.workdir(j.home), "ctx-"+hex.EncodeToString(sum[:8]), "d", "link"))
	if err != nil || string(list) != want {
		j.t.Errorf("after turn %d the list on %s is %q, %v", n, j.home, list, err)
	}
	return o
}

// moves runs a turn after something has happened to the context's worker, and expects it on another
// worker, with everything that belongs to the context.
func (j *movingContext) moves(why string, happens func()) {
	j.t.Helper()
	was := j.home
	happens()
	o := j.turn()
	if j.home == was {
		j.t.Errorf("the context stays on %s, which is %s", was, why)
	}
	for _, typ := range []string{"session_restored", "workspace_restored"} {
		if len(o.of(typ)) != 1 {
			j.t.Errorf("%s: %d events %s: %s", why, len(o.of(typ)), typ, kinds(o.events))
		}
	}
	here := j.home
	if o := j.turn(); j.home != here || slices.ContainsFunc(o.events, func(e bloom.Event) bool { return strings.HasSuffix(e.Type, "_restored") }) {
		j.t.Errorf("having moved to %s, the next turn ran on %s with %s", here, j.home, kinds(o.events))
	}
}

// TestALargeContextMoves moves a conversation of BLOOM_TEST_CONTEXT_MIB to another worker: nothing
// holds all of it in memory. With the full 50 MiB, the upload and the download take less than three
// seconds.
func TestALargeContextMoves(t *testing.T) {
	t.Parallel()
	mib, full := 8, false
	if n, err := strconv.Atoi(os.Getenv("BLOOM_TEST_CONTEXT_MIB")); err == nil {
		mib, full = n, true
	}
	h := newHarness(t)
	server := h.serve()
	grown := false
	h.anything(func(r standin.Request) standin.Reply {
		if strings.Contains(r.LastUser(), "<the second turn>") && len(r.Tools) > 0 && !grown {
			grown = true // under the harness's lock
			grow(t, h.configDir("from"), int64(mib)<<20)
		}
		return standin.Reply{Text: "noted"}
	})
	workers := map[string]*proc{}
	for _, name := range []string{"from", "to"} {
		workers[name] = h.work(workerOptions{name: name, args: []string{"--label", name}})
		workers[name].says("registered")
	}
	turn := func(prompt, worker string) outcome {
		t.Helper()
		o := h.await(t, h.submit(t, bloom.TaskSpec{ContextID: "large", AgentSlug: "nobody", Prompt: prompt, Labels: []string{worker}, MaxAttempts: 1, Policy: bloom.Policy{TimeoutSec: 600}}).ID)
		o.succeeded("noted")
		return o
	}
	turn("<the first turn>", "from")
	before := map[*proc]int64{}
	for _, p := range []*proc{server, workers["from"], workers["to"]} {
		before[p] = kilobytes(p.cmd.Process.Pid, "VmRSS")
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0) // resets the peak
	}
	given := between(t, turn("<the second turn>", "from"), "usage", bloom.EventCompleted)
	moved := turn("<the third turn>", "to")
	if got := moved.of("session_restored"); len(got) != 1 || got[0]["bytes"].(float64) < float64(mib<<20) {
		t.Fatalf("restored %v", got)
	}
	fetched := between(t, moved, bloom.EventStarted, "session_restored")
	requests := h.asked("<the third turn>")
	if got := requests[len(requests)-1].Conversation(); !strings.Contains(got, "<the first turn>") || !strings.Contains(got, "<the second turn>") {
		t.Errorf("the conversation:\n%.2000s", got)
	}
	for p, was := range before {
		grown := kilobytes(p.cmd.Process.Pid, "VmHWM") - was
		t.Logf("%s had %d MB and grew by %d MB at most", p.name, was/1000, grown/1000)
		if most := int64(100_000); len(buildFlags) == 0 && grown > most {
			t.Errorf("%s grew by %d kB for a context of %d MiB", p.name, grown, mib)
		}
	}
	t.Logf("%d MiB: given to the server within %s of the answer, fetched in %s; load %s", mib, given, fetched, load())
	if full && given+fetched > 3*time.Second {
		t.Errorf("it took %s to move %d MiB", given+fetched, mib)
	}
}

// between returns the time between two events of a run.
func between(t *testing.T, o outcome, from, to string) time.Duration {
	t.Helper()
	var began, ended int64
	for _, e := range o.events {
		switch e.Type {
		case from:
			began = e.At
		case to:
			ended = e.At
		}
	}
	if began == 0 || ended == 0 {
		t.Fatalf("no %s or %s among %s", from, to, kinds(o.events))
	}
	return time.Duration(ended-began) * time.Millisecond
}

// grow adds lines to the only session of a worker, in the middle of its turn, which claude skips
// when it resumes the session.
func grow(t *testing.T, configDir string, size int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(configDir, "projects", "*", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Errorf("sessions %v, %v", files, err)
		return
	}
	f, err := os.OpenFile(files[0], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for n, i := int64(0), 0; n < size; i++ {
		line := fmt.Sprintf(`{"type":"filler","uuid":"%08d-0000-4000-8000-000000000000","timestamp":"2026-01-01T00:00:00.000Z","text":"%s"}`+"\n", i, noise(i, 8000))
		if _, err := f.WriteString(line); err != nil {
			t.Error(err)
			return
		}
		n += int64(len(line))
	}
}

// noise returns text that compresses about as well as a conversation does.
func noise(seed, size int) string {
	words := []string{"alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett", "kilo", "lima", "mike", "november", "oscar", "papa"}
	var b strings.Builder
	for x := uint32(seed)*2654435761 + 1; b.Len() < size; {
		x = x*1664525 + 1013904223
		b.WriteString(words[x>>28])
		b.WriteByte(' ')
	}
	return b.String()
}
