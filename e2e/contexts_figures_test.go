package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestFiguresOfContexts measures how long tasks take whose claude is started for them,
// waits for whoever comes first, or is alive already: from their creation to claude's
// first request of the model, and to their completion, over HTTP, with the real claude
// and a model that answers at once. BLOOM_TEST_CONTEXT_FIGURES is how often each is
// measured. The table is that of docs/contexts.md.
func TestFiguresOfContexts(t *testing.T) {
	samples, err := strconv.Atoi(os.Getenv("BLOOM_TEST_CONTEXT_FIGURES"))
	if err != nil || samples < 1 {
		t.Skip("measures; BLOOM_TEST_CONTEXT_FIGURES=20 says how often")
	}
	f := &figures{house: newHouse(t), asked: map[string]time.Time{}}
	f.serve()
	f.anything(func(r standin.Request) standin.Reply {
		prompts := figurePrompt.FindAllString(r.LastUser(), -1) // claude adds texts of its own
		if len(prompts) > 0 && len(r.Tools) > 0 && f.asked[prompts[len(prompts)-1]].IsZero() {
			f.asked[prompts[len(prompts)-1]] = time.Now() // under the house's lock
		}
		return standin.Reply{Text: "ok"}
	})
	t.Logf("load before: %s", load())
	cold := f.start("cold", "0")
	f.measure("cold, a context's first task", samples, "cold", "cold", func(i int) string { return fmt.Sprint("cold ", i) }, nil)
	f.measure("cold, its next task", samples, "cold", "cold", func(i int) string { return "cold 0" }, nil)
	f.stop(cold)
	warm := f.start("warm", "3")
	f.measure("spare, a context's first task", samples, "warm", "spare", func(i int) string { return fmt.Sprint("warm ", i) }, f.untilSpare)
	f.measure("living, its next task", samples, "warm", "living", func(int) string { return fmt.Sprint("warm ", samples-1) }, nil)
	f.memory(warm)
	f.stop(warm)
	t.Logf("load after: %s", load())
	for _, line := range f.lines {
		t.Log(line)
	}
	first, next := f.p50["spare, a context's first task"]/f.p50["cold, a context's first task"], f.p50["living, its next task"]
	t.Logf("a context's first task takes %.2f of a cold one (wanted: less than 0.6), its next task %.0f ms (wanted: at most 150)", first, next)
}

var figurePrompt = regexp.MustCompile(`<(?:cold|spare|living), [^>]*>`)

// load is the machine's load, and what this program adds to it: a figure means little
// without.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(raw))
}

type figures struct {
	*house
	asked map[string]time.Time // when the model was asked first, by prompt
	lines []string
	p50   map[string]float64 // milliseconds to completion
}

// start starts a worker that keeps so many processes alive, and lets it be.
func (f *figures) start(name, warm string) *proc {
	p := f.work(workerOptions{name: name, args: []string{"--warm", warm, "--label", name}})
	p.says("registered")
	return p
}

// untilSpare waits until a spare process has had the time to start.
func (f *figures) untilSpare() { time.Sleep(2 * time.Second) }

func (f *figures) measure(what string, samples int, label, kind string, contextOf func(int) string, before func()) {
	f.t.Helper()
	var toRequest, toEnd []float64
	for i := range samples {
		if before != nil {
			before()
		}
		prompt := fmt.Sprintf("<%s %d>", what, i)
		began := time.Now()
		task := f.submit(f.t, bloom.TaskSpec{ContextID: contextOf(i), AgentSlug: "nobody", Prompt: prompt, MaxAttempts: 1, Labels: []string{label}, Policy: bloom.Policy{TimeoutSec: 600}})
		var events []bloom.Event
		for e, err := range f.api.FollowEvents(f.t.Context(), task.ID, client.FollowOptions{}) {
			if err != nil {
				f.t.Fatal(err)
			}
			events = append(events, e)
		}
		ended := time.Since(began)
		o := f.read(f.t.Context(), f.t, task.ID, outcome{t: f.t, events: events})
		o.succeeded("ok")
		if got := o.of("session"); len(got) != 1 || got[0]["process"] != kind {
			f.t.Logf("%s %d is left out: its process was %v", what, i, got)
			continue
		}
		f.mu.Lock()
		asked := f.house.other != nil && !f.asked[prompt].IsZero()
		first := f.asked[prompt].Sub(began)
		f.mu.Unlock()
		if !asked {
			f.t.Fatalf("the model was not asked %q", prompt)
		}
		toRequest, toEnd = append(toRequest, first.Seconds()*1000), append(toEnd, ended.Seconds()*1000)
	}
	if len(toEnd) == 0 {
		f.t.Fatalf("nothing was measured of %s", what)
	}
	if f.p50 == nil {
		f.p50 = map[string]float64{}
		f.lines = append(f.lines, "| process | first request p50 | p95 | completed p50 | p95 | n |", "|---|---|---|---|---|---|")
	}
	f.p50[what] = quantile(toEnd, 0.5)
	f.lines = append(f.lines, fmt.Sprintf("| %s | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %d |", what, quantile(toRequest, 0.5), quantile(toRequest, 0.95),
		quantile(toEnd, 0.5), quantile(toEnd, 0.95), len(toEnd)))
}

func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// memory is the resident memory of the worker's processes.
func (f *figures) memory(worker *proc) {
	var claudes []string
	for _, pid := range marked(f.markOf("warm")) {
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(comm)) == "claude" {
			claudes = append(claudes, fmt.Sprintf("%d MB", kilobytes(pid, "VmRSS")/1000))
		}
	}
	f.lines = append(f.lines, fmt.Sprintf("memory: the worker %d MB, its %d living claudes %s", kilobytes(worker.cmd.Process.Pid, "VmRSS")/1000, len(claudes), strings.Join(claudes, ", ")))
}

// kilobytes reads a line of /proc/PID/status; 0 when it cannot.
func kilobytes(pid int, field string) (n int64) {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, _ = strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		}
	}
	return n
}

// TestALargeContextMoves has a conversation of BLOOM_TEST_CONTEXT_MIB move to another
// worker: nothing holds all of it in memory. With the full 50 MiB it takes less than three
// seconds to give it to the server and to fetch it.
func TestALargeContextMoves(t *testing.T) {
	t.Parallel()
	mib, full := 8, false
	if n, err := strconv.Atoi(os.Getenv("BLOOM_TEST_CONTEXT_MIB")); err == nil {
		mib, full = n, true
	}
	h := newHouse(t)
	server := h.serve()
	grown := false
	h.anything(func(r standin.Request) standin.Reply {
		if strings.Contains(r.LastUser(), "<the second turn>") && len(r.Tools) > 0 && !grown {
			grown = true // under the house's lock
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
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0) // the peak begins anew
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

// between is the time from one event of a run to another.
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

// grow adds lines to the one session of a worker, in the middle of its turn, which claude
// passes over when it resumes the session.
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

// noise is text that compresses about as well as a conversation does.
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
