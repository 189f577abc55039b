package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// The web application shows the last 8 characters of an id.
func TestCommandsTakeTheIDsThatTheWebShows(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	employ(t, rt, nil, bloom.Completion{Status: bloom.OutcomeSuccess, Output: text("done"), ArtifactType: "LLM_RESULT"})
	p := newPerson(t, rt)
	const conversation = "0199a3e7-7c1a-4f00-8a10-00000000abcd"
	p.must("task", "run", "--context", conversation, "--agent", "a", "do it")
	task := decode[[]bloom.Task](t, p.must("task", "list", "--json"))[0].ID
	artifact := decode[[]bloom.Artifact](t, p.must("artifacts", "--json"))[0].ID
	end := func(id string) string { return id[len(id)-8:] }
	for _, c := range [][]string{
		{"task", "get", end(task)}, {"task", "get", strings.ToUpper(end(task))}, {"task", "wait", end(task), "--json"}, {"artifacts", "get", end(artifact)},
		{"leases", "--task", end(task)}, {"artifacts", "--task", end(task)}, {"audit", "--entity", end(task)},
		{"task", "list", "--context", end(conversation)},
	} {
		if got := p.must(c...); !strings.Contains(got, task) {
			t.Errorf("%v: %s", c, got)
		}
	}
	if got := p.must("artifacts", "content", end(artifact)); got != "done" {
		t.Errorf("content: %q", got)
	}
	if got := p.must("task", "logs", end(task)); !strings.Contains(got, "leased to w1") {
		t.Errorf("logs: %s", got)
	}
	if got := p.must("contexts", "show", end(conversation)); !strings.Contains(got, conversation) {
		t.Errorf("context: %s", got)
	}
	p.must("contexts", "rename", conversation, "Small talk")
	if got := p.must("contexts", "show", "Small talk"); !strings.Contains(got, conversation) {
		t.Errorf("by its name: %s", got)
	}
	if got := p.run("contexts", "show", "Small"); got.code != cli.ExitFailure || !strings.Contains(got.err, "not found") {
		t.Errorf("by a part of its name: %+v", got)
	}
	if got := p.run("task", "cancel", end(task)); got.code == 0 || !strings.Contains(got.err, "completed") {
		t.Errorf("cancel: %+v", got)
	}
	if got := p.run("task", "get", "00000000"); got.code != cli.ExitFailure || !strings.Contains(got.err, "no task has an id that ends in 00000000") {
		t.Errorf("an unknown end: %+v", got)
	}
}

func TestAnAmbiguousIDNamesTheCandidates(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	const one, two = "01990000-0000-7000-8000-1234deadbeef", "01980000-0000-7000-8000-5678deadbeef"
	rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/llm-tasks") || r.URL.Query().Get("short_id") != "deadbeef" {
			return false
		}
		_, _ = w.Write(storable.MustJSON([]bloom.Task{{ID: one}, {ID: two}}))
		return true
	})
	got := newPerson(t, rt).run("task", "get", "deadbeef")
	if got.code != cli.ExitUsage || !strings.Contains(got.err, one) || !strings.Contains(got.err, two) {
		t.Errorf("%+v", got)
	}
}

// A person at a terminal is asked before something is gone; a script is not.
func TestWhatCannotBeUndoneAsksOnATerminal(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	employ(t, rt, nil, bloom.Completion{Status: bloom.OutcomeSuccess, Output: text("done")})
	p := newPerson(t, rt)
	p.must("task", "run", "--context", "talk", "--agent", "a", "do it")
	id := strings.Split(strings.TrimSpace(p.must("keys", "create", "--role", "viewer", "--name", "v")), "_")[1]
	for _, c := range [][]string{{"keys", "rm", id}, {"contexts", "rm", "talk"}, {"workers", "rm", "nobody"}} {
		p.terminal, p.in = true, "n\n"
		if got := p.run(c...); got.code != cli.ExitFailure || !strings.Contains(got.err, c[2]+" ") && !strings.Contains(got.err, c[2]+"?") || !strings.Contains(got.err, "Nothing was changed") {
			t.Errorf("%v, answered with no: %+v", c, got)
		}
		if c[2] == "nobody" {
			continue
		}
		if got := p.run(append(c, "--yes")...); got.code != cli.ExitOK || strings.Contains(got.err, "[y/N]") || c[0] == "contexts" && !strings.Contains(got.out, "talk is forgotten. Workers delete their copies when") {
			t.Errorf("%v --yes: %+v", c, got)
		}
	}
	for _, c := range [][]string{{"secrets", "rotate"}, {"service", "uninstall", "worker", "--root", t.TempDir(), "--init", "systemd"}} {
		if got := p.run(c...); got.code != cli.ExitFailure || !strings.Contains(got.err, "Nothing was changed") {
			t.Errorf("%v, answered with no: %+v", c, got)
		}
	}
	p.terminal, p.in = false, ""
	if got := p.run("workers", "remove", "w1"); got.code != cli.ExitOK || strings.Contains(got.err, "[y/N]") {
		t.Errorf("in a script: %+v", got)
	}
}

func TestLastIsTheTaskThatThisUserSubmitted(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	if got := p.run("task", "show", "@last"); got.code != cli.ExitUsage || !strings.Contains(got.err, "no task was submitted from here to "+rt.URL) {
		t.Errorf("before the first: %+v", got)
	}
	wantRun(t, p.run("task", "show", "@lats"), cli.ExitUsage, "did you mean @last?")
	wantRun(t, p.run("artifacts", "list", "@last"), cli.ExitUsage, "say --task @last")
	id := strings.TrimSpace(p.must("task", "submit", "--context", "verses", "--label", "nobody", "Write a poem"))
	newPerson(t, rt).must("task", "submit", "--label", "nobody", "Somebody else's")
	for _, c := range [][]string{
		{"task", "show", "@last"}, {"task", "list", "--context", "@last"}, {"contexts", "show", "@last"}, {"audit", "--entity", "@last"},
		{"task", "submit", "--context", "@last", "--label", "nobody", "Shorter"}, {"task", "cancel", "@last"},
	} {
		p.must(c...)
	}
	wantRun(t, p.run("contexts", "rename", "@last", "Verses"), 0, "verses is called Verses\n")
	wantRun(t, p.run("contexts", "pin", "verses"), 0, "verses is pinned\n")
	wantRun(t, p.run("contexts", "unpin", "verses"), 0, "verses is not pinned any more\n")
	tasks := decode[[]bloom.Task](t, p.must("task", "list", "--context", "verses", "--json"))
	if len(tasks) != 2 || tasks[1].ID != id || tasks[0].Status != bloom.TaskCancelled {
		t.Errorf("got %+v", tasks)
	}
	p.env["BLOOM_RUNTIME_URL"] = strings.Replace(rt.URL, "127.0.0.1", "localhost", 1)
	if got := p.run("task", "cancel", "@last"); got.code != cli.ExitUsage {
		t.Errorf("at another server: %+v", got)
	}
}
