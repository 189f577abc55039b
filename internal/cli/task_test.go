package cli_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func succeeding(output string) bloom.Completion {
	turns, tokens, cost := int64(2), int64(1234), 0.0123
	return bloom.Completion{Status: bloom.OutcomeSuccess, Output: &output,
		Metrics: bloom.Metrics{DurationMS: 3200, NumTurns: &turns, TokensUsed: &tokens, CostUSD: &cost, CostKind: "api_usd", Model: "m"}}
}

func TestTaskRunPrintsTheOutputAndExitsByTheVerdict(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	employ(t, rt, nil, succeeding("the answer"))
	got := newPerson(t, rt).run("task", "run", "What is it?")
	if got.code != cli.ExitOK || got.out != "the answer\n" {
		t.Fatalf("exit code %d, output %q, errors %q", got.code, got.out, got.err)
	}
	for _, want := range []string{"completed", "3.2s", "2 turns", "1,234 tokens", "$0.0123"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("the last line lacks %q: %q", want, got.err)
		}
	}
}

func TestTaskRunOnATerminalShowsTheStreamOnce(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	employ(t, rt, []bloom.WorkerEvent{
		event(1, "tool_use", map[string]any{"name": "Bash", "input": map[string]any{"command": "ls -la"}}),
		event(2, "tool_result", map[string]any{"text": "a\nb\nc"}),
		event(3, "warning", map[string]any{"text": "take care"}),
		event(4, "text", map[string]any{"text": "the \x1b[31manswer"}),
		event(5, "of_the_future", map[string]any{}),
	}, succeeding("the \x1b[31manswer"))
	p := newPerson(t, rt)
	p.terminal = true
	got := p.run("task", "run", "What is it?", "--no-color")
	if got.code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	for _, want := range []string{"→ Bash ls -la", "a (+2 lines)", "! take care", "· of_the_future", "the \uFFFD[31manswer"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("the stream lacks %q:\n%s", want, got.err)
		}
	}
	if strings.Contains(got.out+got.err, "\x1b") {
		t.Error("an escape sequence of the model's reached the terminal")
	}
	if strings.Contains(got.out, "answer") {
		t.Errorf("the output was shown a second time: %q", got.out)
	}
}

func TestTaskRunFailsWithTheTask(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	employ(t, rt, nil, bloom.Completion{Status: bloom.OutcomeError, ErrorMessage: text("nobody is logged in"), ErrorClass: bloom.ClassAuth})
	got := newPerson(t, rt).run("task", "run", "What is it?", "--max-attempts=1")
	if got.code != cli.ExitFailure || !strings.Contains(got.err, "failed (auth): nobody is logged in") {
		t.Fatalf("exit code %d, errors %q", got.code, got.err)
	}
}

func TestTaskRunAsJSON(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	employ(t, rt, nil, succeeding("the answer"))
	p := newPerson(t, rt)
	p.in = "a prompt\nfrom a pipe\n"
	got := decode[struct {
		Task   bloom.Task
		Result *bloom.Result
		Output string
	}](t, p.must("task", "run", "-", "--json", "--context=c1", "--agent=reviewer"))
	if got.Task.Prompt != "a prompt\nfrom a pipe" || got.Task.ContextID != "c1" || got.Task.AgentSlug != "reviewer" ||
		got.Output != "the answer" || got.Result == nil || got.Result.Status != bloom.OutcomeSuccess {
		t.Errorf("got %+v", got)
	}
}

func TestInterruptLeavesOrCancelsTheTask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want bloom.TaskStatus
		says string
	}{
		"without a flag the task goes on": {nil, bloom.TaskQueued, "bloom task cancel"},
		"with the flag it is cancelled":   {[]string{"--cancel-on-interrupt"}, bloom.TaskCancelled, "is being cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := runtimetest.Start(t)
			p := newPerson(t, rt)
			p.terminal = true
			var once sync.Once
			p.stderr = func(b []byte) {
				if bytes.Contains(b, []byte("task ")) {
					once.Do(func() { p.signals <- os.Interrupt })
				}
			}
			got := p.run(append([]string{"task", "run", "Wait for it."}, c.args...)...)
			if got.code != cli.ExitInterrupted || !strings.Contains(got.err, c.says) {
				t.Fatalf("exit code %d, errors %q", got.code, got.err)
			}
			p.stderr = nil
			tasks := decode[[]bloom.Task](t, p.must("task", "list", "--json"))
			if len(tasks) != 1 || tasks[0].Status != c.want {
				t.Errorf("tasks afterwards: %+v", tasks)
			}
		})
	}
}

func TestATaskFromSubmitToRequeue(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	id := strings.TrimSpace(p.must("task", "submit", "Do it.", "--label=nobody", "--timeout=90s", "--priority=3"))
	task := decode[struct{ Task bloom.Task }](t, p.must("task", "get", id, "--json")).Task
	if task.Policy.TimeoutSec != 90 || task.Priority != 3 || len(task.Labels) != 1 {
		t.Errorf("got %+v", task)
	}
	if out := p.must("task", "list", "--status=queued"); !strings.Contains(out, id) || !strings.Contains(out, "Do it.") {
		t.Errorf("the list lacks the task:\n%s", out)
	}
	if out := p.must("task", "list", "--status=dead"); strings.Contains(out, id) {
		t.Errorf("the list shows what was not asked for:\n%s", out)
	}
	if out := p.must("task", "logs", id, "--json"); !strings.Contains(out, `"created"`) {
		t.Errorf("the stream lacks its beginning: %s", out)
	}
	p.must("task", "cancel", id)
	if got := p.run("task", "wait", id); got.code != cli.ExitFailure || got.out != "cancelled\n" {
		t.Errorf("wait: exit code %d, output %q", got.code, got.out)
	}
	if got := p.run("task", "cancel", id); got.code != cli.ExitFailure {
		t.Errorf("a second cancel: exit code %d", got.code)
	}
	p.must("task", "requeue", id)
	if out := p.must("stats", "--json"); !strings.Contains(out, `"queued": 1`) {
		t.Errorf("stats: %s", out)
	}
	if out := p.must("audit", "--entity", id, "--action=task_requeued", "--json"); len(decode[[]bloom.Audit](t, out)) != 1 {
		t.Errorf("audit: %s", out)
	}
	for _, args := range [][]string{{"stats"}, {"audit"}, {"task", "get", id}, {"leases"}, {"workers"}, {"artifacts"}} {
		if out := p.must(args...); strings.Contains(out, "\x1b") {
			t.Errorf("bloom %s colours a pipe", args)
		}
	}
}

func TestWorkersLeasesAndArtifacts(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	large := strings.Repeat("x", contract.InlineContentLimit+1)
	employ(t, rt, nil, succeeding(large))
	p := newPerson(t, rt)
	if got := p.must("task", "run", "Write much."); got != large+"\n" {
		t.Fatalf("%d bytes of output", len(got))
	}
	artifacts := decode[[]bloom.Artifact](t, p.must("artifacts", "list", "--json"))
	if len(artifacts) != 1 || artifacts[0].Content != nil {
		t.Fatalf("artifacts: %d", len(artifacts))
	}
	file := filepath.Join(t.TempDir(), "out")
	p.must("artifacts", "content", artifacts[0].ID, "-o", file)
	if raw, err := os.ReadFile(file); err != nil || string(raw) != large {
		t.Errorf("%d bytes in the file, %v", len(raw), err)
	}
	if got := p.run("artifacts", "content", artifacts[0].ID, "-o", file); got.code != cli.ExitFailure {
		t.Error("a file that was there was written over")
	}
	if leases := decode[[]bloom.Lease](t, p.must("leases", "--json", "--status=released")); len(leases) != 1 {
		t.Errorf("%d leases", len(leases))
	}
	out := p.must("stats", "--since=1h")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) < 14 || !strings.HasPrefix(lines[0], "FROM ") || !strings.HasPrefix(lines[len(lines)-1], "all ") {
		t.Errorf("stats:\n%s", out)
	}
	if s := decode[bloom.Series](t, p.must("stats", "--since=48h", "--json")); len(s.Points) < 8 || s.Points[len(s.Points)-1].Created != 1 {
		t.Errorf("a time series of %+v", s)
	}
	p.must("workers", "drain", "w1")
	if out := p.must("workers"); !strings.Contains(out, "draining") {
		t.Errorf("workers:\n%s", out)
	}
	if out := p.must("workers", "get", "w1"); !strings.Contains(out, "at the runtime") {
		t.Errorf("a drained worker:\n%s", out)
	}
	if out := p.must("workers", "undrain", "w1"); !strings.Contains(out, "takes work") {
		t.Errorf("undrained:\n%s", out)
	}
	p.must("workers", "remove", "w1")
	if got := p.run("workers", "get", "w1"); got.code != cli.ExitFailure || !strings.Contains(got.err, "Worker not found: w1") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

func TestAWrongFieldIsNamedOnce(t *testing.T) {
	t.Parallel()
	got := newPerson(t, runtimetest.Start(t)).run("task", "submit", "x", "--priority", "99999")
	if got.code != cli.ExitFailure || strings.Count(got.err, "between -1000 and 1000") != 1 {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

func TestFilesAreAttached(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	file := filepath.Join(t.TempDir(), "figures.csv")
	content := strings.Repeat("1,2\n", 100_000)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	task := decode[bloom.Task](t, p.must("task", "submit", "look", "--attach", file, "--json"))
	if len(task.Attachments) != 1 || task.Attachments[0].Name != "figures.csv" {
		t.Fatalf("attachments %+v", task.Attachments)
	}
	r, err := apiOf(t, rt).Attachment(t.Context(), task.ID, "figures.csv", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != content {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	wantRun(t, p.run("task", "submit", "look", "--attach", filepath.Dir(file)), cli.ExitUsage, "is a folder")
	wantRun(t, p.run("task", "submit", "look", "--attach", file+"s"), cli.ExitUsage, file+"s does not exist")
	if err := os.Truncate(file, 2<<20); err != nil { // the test server takes 1 MiB
		t.Fatal(err)
	}
	wantRun(t, p.run("task", "submit", "look", "--attach", file), cli.ExitFailure, "at most 1 MiB together")
}

func TestASchedulesTasksAreShownWithTheirOutcome(t *testing.T) {
	t.Parallel()
	p := newPerson(t, runtimetest.Start(t))
	wantRun(t, p.run("schedules", "add", "tidy", "Tidy up"), cli.ExitUsage, "give --cron or --every")
	wantRun(t, p.run("schedules", "add", "tidy", "Tidy up", "--every", "10s"), cli.ExitUsage, "--every must be at least 1m")
	wantRun(t, p.run("schedules", "add", "tidy", "Tidy", "up", "--every", "2h"), cli.ExitUsage, "put the prompt in quotes")
	p.must("schedules", "add", "tidy", "Tidy up", "--every", "2h", "--label", "nobody")
	id := strings.TrimSpace(p.must("schedules", "run", "tidy"))
	wantRun(t, p.run("schedules", "show", "tidy"), 0, "task "+id+"  queued")
	p.must("task", "cancel", id)
	wantRun(t, p.run("task", "show", id), 0, "timeout 30m,")
	got := p.run("schedules", "show", "tidy")
	for _, want := range []string{"every 2h\n", "the last missed time", "task " + id + "  cancelled in ", "bloom task show ID"} {
		wantRun(t, got, 0, want)
	}
}
