package cli_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

func TestAllTasksThatMatchAreCancelledAndRequeued(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	for range 3 {
		p.must("task", "submit", "Wait", "--agent=writer", "--label=unobtainium")
	}
	p.must("task", "submit", "Wait", "--agent=reader", "--label=unobtainium")
	says := func(want string, args ...string) {
		t.Helper()
		if got := p.must(args...); got != want {
			t.Errorf("bloom %s: %q, want %q", strings.Join(args, " "), got, want)
		}
	}
	says("3 tasks would be cancelled.\n", "task", "cancel", "--agent=writer", "--dry-run")
	says("No task matches that could be requeued.\n", "task", "requeue", "--agent=writer", "--yes")
	if got := p.run("task", "cancel", "--agent=writer"); got.code != cli.ExitUsage || !strings.Contains(got.err, "Cancel 3 tasks? Add --yes") {
		t.Errorf("without --yes: exit code %d, %q", got.code, got.err)
	}
	p.terminal = true
	for _, answer := range []string{"", "\n", "n\n"} {
		p.in = answer
		if got := p.run("task", "cancel", "--agent=writer"); got.code != cli.ExitFailure || !strings.Contains(got.err, "Cancel 3 tasks? [y/N] Nothing was changed.") {
			t.Errorf("answered %q: exit code %d, %q", answer, got.code, got.err)
		}
	}
	p.in = "y\n"
	says("3 tasks cancelled.\n", "task", "cancel", "--agent=writer")
	p.terminal = false
	says("3 tasks requeued.\n", "task", "requeue", "--status=cancelled", "-y")
	if got := decode[bloom.TasksMatched](t, p.must("task", "cancel", "--query=wait", "--agent=reader", "--dry-run", "--json")); got.Changed != 0 {
		t.Errorf("a dry run: %+v", got)
	}
	p.must("task", "submit", "Wait", "--agent=writer", "--label=unobtainium", "--label=a,b")
	if tasks := decode[[]bloom.Task](t, p.must("task", "list", "--label=unobtainium", "--label=a,b", "--json")); len(tasks) != 1 || len(tasks[0].Labels) != 3 {
		t.Errorf("listed by labels: %+v", tasks)
	}
	says("5 tasks would be cancelled.\n", "task", "cancel", "--label=unobtainium", "--dry-run")
	says("1 task cancelled.\n", "task", "cancel", "--label=a,b", "--yes")
	says("1 task requeued.\n", "task", "requeue", "--label=a,b", "--label=unobtainium", "--yes")
	says("No task matches that could be cancelled.\n", "task", "cancel", "--label=a,c", "--yes")
	for _, args := range [][]string{{"task", "cancel"}, {"task", "requeue"}, {"task", "cancel", "some-id", "--agent=writer"}, {"task", "cancel", "some-id", "--dry-run"}} {
		if got := p.run(args...); got.code != cli.ExitUsage {
			t.Errorf("bloom %s: exit code %d, %q", strings.Join(args, " "), got.code, got.err)
		}
	}
}

func TestTaskListGoesOnPastThePagesOfASearch(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	api := apiOf(t, rt)
	for range 120 { // a page of a search has 100
		if _, err := api.Submit(t.Context(), bloom.TaskSpec{ContextID: "zoo", AgentSlug: "counter", Prompt: "count the walruses", Labels: []string{"unobtainium"}}); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		var err error
		if _, more, err = rt.Store.IndexTasks(t.Context(), rt.Service.Content.Read); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[string]int{"--limit=10": 10, "--limit=110": 110, "--limit=500": 120, "--all": 120} {
		if n := len(decode[[]bloom.Task](t, p.must("task", "list", "-q", "walruses", limit, "--json"))); n != want {
			t.Errorf("%s lists %d, want %d", limit, n, want)
		}
	}
}

func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	cost := 1.234
	employ(t, rt, nil, bloom.Completion{Status: bloom.OutcomeSuccess, Output: text("done"), Metrics: bloom.Metrics{CostUSD: &cost}})
	p := newPerson(t, rt)
	for _, word := range []string{"one", "two"} {
		p.must("task", "run", "--agent", "assistant", "Write "+word+" "+strings.Repeat("long ", 30))
	}
	for columns, want := range map[int][]string{80: {"TOOK", "$1.23", "…"}, 130: {"WORKER", "$1.23", "…"}, 0: {"WORKER", "long long long long"}} {
		p.terminal, p.columns = true, columns
		for _, c := range [][]string{{"task", "list"}, {"leases"}, {"leases", "-n1"}, {"contexts"}, {"audit"}, {"stats", "--since=1h"}} {
			out := p.must(append(c, "--no-color")...)
			for line := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns && columns > 0 {
					t.Errorf("%v in %d columns: %d in %q", c, columns, n, line)
				}
			}
			for _, w := range want {
				if c[0] == "task" && !strings.Contains(out, w) {
					t.Errorf("%v in %d columns has no %q:\n%s", c, columns, w, out)
				}
			}
		}
	}
	p.terminal = false
	tasks := decode[[]bloom.Task](t, p.must("task", "list", "--json"))
	if out := p.must("task", "list"); !strings.Contains(out, tasks[0].ID) {
		t.Errorf("a pipe gets no whole ids:\n%s", out)
	}
}
