package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// The key is sent only to the given address.
func TestBenchFollowsNoRedirectWithTheKey(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s with %v", r.URL, r.Header) }))
	defer thief.Close()
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer moved.Close()
	got := newPerson(t, nil).run("bench", "run", "-n", "1", "--url", moved.URL, "--api-key", serverKey)
	if got.code == 0 || !strings.Contains(got.err, "redirects") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

func TestBenchNamesTheNumberThatIsWrong(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--clients: 0 is less than 1":                   {"run", "-c", "0"},
		"--samples: -1 is less than 1":                  {"run", "--samples=-1"},
		"--duration: 0s is not greater than 0":          {"run", "-d", "0s"},
		"--max-concurrency: 99 is not between 1 and 32": {"fleet", "--slots", "99"},
		"--duration: -5s is not greater than 0":         {"fleet", "--duration=-5s"},
	} {
		got := newPerson(t, nil).run(append([]string{"bench"}, args...)...)
		if lines := strings.Split(strings.TrimSpace(got.err), "\n"); got.code != cli.ExitUsage || lines[0] != "bloom: "+want {
			t.Errorf("bench %v: exit code %d: %s", args, got.code, got.err)
		}
	}
}

func TestBenchRefusesToMeasureALimit(t *testing.T) {
	t.Parallel()
	s := newStage(t, "server")
	s.start("--data-dir={dir}/data", "--listen=127.0.0.1:0", "--no-membridge", "--runtime-api-key="+serverKey)
	for _, args := range [][]string{{"run", "-n", "1"}, {"fleet", "-d", "1s", "--samples", "0"}} {
		out, code := s.run(append([]string{"bench"}, append(args, "--url", s.url(), "--api-key", serverKey)...)...)
		if code != 1 || !strings.Contains(out, `"key";q=6000;w=60`) || !strings.Contains(out, "--rate-limit-key=0") {
			t.Errorf("bench %v: exit code %d: %s", args, code, out)
		}
	}
}

func TestBenchMeasuresAndTidiesUp(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	report := decode[struct {
		Lifecycles int
		Tasks      int64 `json:"tasks_before"`
		Latencies  []struct {
			Step  string
			Count int
			P50   float64 `json:"p50_ms"`
		}
	}](t, p.must("bench", "run", "-n", "20", "-c", "4", "--samples=3", "--json"))
	if report.Lifecycles != 20 || report.Tasks != 0 {
		t.Errorf("got %+v", report)
	}
	counts := map[string]int{}
	for _, l := range report.Latencies {
		counts[l.Step] = l.Count
	}
	for step, want := range map[string]int{"create": 20, "complete": 20, "create to start": 3, "claim one of many": 3, "stats": 3} {
		if counts[step] != want {
			t.Errorf("%s was measured %d times, want %d", step, counts[step], want)
		}
	}
	fleet := decode[struct {
		Completed int
		Failures  int     `json:"failed_calls"`
		PerSecond float64 `json:"tasks_per_second"`
		Latencies []struct {
			Step  string
			Count int
		}
	}](t, p.must("bench", "fleet", "--creators=3", "--workers=2", "--max-concurrency=2", "-d", "300ms", "--samples=4", "--json"))
	counts = map[string]int{}
	for _, l := range fleet.Latencies {
		counts[l.Step] = l.Count
	}
	if fleet.Completed == 0 || fleet.Failures != 0 || fleet.PerSecond <= 0 || counts["create to start, idle"] != 4 ||
		counts["create to start, under load"] != fleet.Completed || counts["complete"] != fleet.Completed+4 {
		t.Errorf("got %+v", fleet)
	}
	if out := p.must("workers", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("workers are left: %s", out)
	}
	if out := p.must("task", "list", "--status", "leased", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("tasks are left: %s", out)
	}
}

// TestBenchLeavesOthersTasksAlone: any worker may claim a task without labels, including the
// benchmark's, which does not run it.
func TestBenchLeavesOthersTasksAlone(t *testing.T) {
	t.Parallel()
	for name, measure := range map[string][]string{
		"run":   {"bench", "run", "-n", "1", "-c", "1", "--samples=1"},
		"fleet": {"bench", "fleet", "--workers=2", "--slots=1", "-d", "1m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := runtimetest.Start(t)
			p, api := newPerson(t, rt), apiOf(t, rt)
			task, err := api.Submit(t.Context(), bloom.TaskSpec{ContextID: "theirs", AgentSlug: "a", Prompt: "Work."})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.run(measure...); got.code != cli.ExitFailure || !strings.Contains(got.err, task.ID) || !strings.Contains(got.err, "a server without other tasks") {
				t.Errorf("exit code %d, %s", got.code, got.err)
			}
			if task, err = api.Task(t.Context(), task.ID); err != nil || task.Status != bloom.TaskQueued || task.Attempts != 0 {
				t.Errorf("the task is %s after %d attempts, %v", task.Status, task.Attempts, err)
			}
			if waiting := strings.Count(p.must("task", "list", "--status", "queued", "--json"), `"id"`); waiting != 1 {
				t.Errorf("%d tasks wait, want only theirs", waiting)
			}
		})
	}
}
