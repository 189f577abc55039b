package e2e_test

import (
	"fmt"
	"os"
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

// TestMeasureContexts measures how long tasks take with a claude that is started for them, with a
// spare one, and with a warm one: from creation to claude's first request to the model, and to
// completion, over HTTP, with the real claude and a model that answers immediately.
// BLOOM_TEST_CONTEXT_SAMPLES is how often each is measured. The results are in docs/development/measurements.md.
func TestMeasureContexts(t *testing.T) {
	samples, err := strconv.Atoi(os.Getenv("BLOOM_TEST_CONTEXT_SAMPLES"))
	if err != nil || samples < 1 {
		t.Skip("measures; BLOOM_TEST_CONTEXT_SAMPLES=20 says how often")
	}
	f := &measurements{harness: newHarness(t), asked: map[string]time.Time{}}
	f.serve()
	f.anything(func(r standin.Request) standin.Reply {
		prompts := measuredPrompt.FindAllString(r.LastUser(), -1) // claude adds texts of its own
		if len(prompts) > 0 && len(r.Tools) > 0 && f.asked[prompts[len(prompts)-1]].IsZero() {
			f.asked[prompts[len(prompts)-1]] = time.Now() // under the harness's lock
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

var measuredPrompt = regexp.MustCompile(`<(?:cold|spare|living), [^>]*>`)

// load returns the machine's load and what this program adds to it, without which a measurement
// means little.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(raw))
}

type measurements struct {
	*harness
	asked map[string]time.Time // when the model was first asked, by prompt
	lines []string
	p50   map[string]float64 // milliseconds to completion
}

// start starts a worker that keeps so many processes, and waits until it is idle.
func (f *measurements) start(name, warm string) *proc {
	p := f.work(workerOptions{name: name, args: []string{"--warm", warm, "--label", name}})
	p.says("registered")
	return p
}

// untilSpare waits until a spare process has had the time to start.
func (f *measurements) untilSpare() { time.Sleep(2 * time.Second) }

func (f *measurements) measure(what string, samples int, label, kind string, contextOf func(int) string, before func()) {
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
		asked := f.harness.other != nil && !f.asked[prompt].IsZero()
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

// memory prints the resident memory of the worker's processes.
func (f *measurements) memory(worker *proc) {
	var claudes []string
	for _, pid := range marked(f.markOf("warm")) {
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(comm)) == "claude" {
			claudes = append(claudes, fmt.Sprintf("%d MB", kilobytes(pid, "VmRSS")/1000))
		}
	}
	f.lines = append(f.lines, fmt.Sprintf("memory: the worker %d MB, its %d living claudes %s", kilobytes(worker.cmd.Process.Pid, "VmRSS")/1000, len(claudes), strings.Join(claudes, ", ")))
}

// kilobytes reads a line of /proc/PID/status; 0 when that fails.
func kilobytes(pid int, field string) (n int64) {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, _ = strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		}
	}
	return n
}
