package claude_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// newWarmHarness is a harness whose runner has warm processes.
func newWarmHarness(t *testing.T, warm int, respond standin.Responder) *harness {
	t.Helper()
	h := newHarness(t, respond)
	h.config.Warm = warm
	return h
}

// kinds are the processes that a run's turns used: cold, new, spare or living.
func kinds(j *journal) string {
	var all []string
	for _, d := range j.of(claude.EventSession) {
		all = append(all, d["process"].(string))
	}
	return strings.Join(all, " ")
}

func in(contextID, prompt string) bloom.Task {
	t := task(prompt)
	t.ContextID = contextID
	return t
}

func TestTheNextTaskOfAContextIsATurnOfItsWarmProcess(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 1, standin.Sequence(standin.Reply{Text: "noted", Usage: standin.Usage{Input: 1000, Output: 100}}))
	one, j := h.run(task("my colour is green"))
	wantSuccess(t, one, "noted")
	if got := kinds(j); got != "new" {
		t.Errorf("the first task's process was %q, want a new one", got)
	}
	for range 3 {
		next, j := h.run(task("what is my colour?"))
		wantSuccess(t, next, "noted")
		if got := kinds(j); got != "living" {
			t.Errorf("the next task's process was %q, want the warm one", got)
		}
		a, b := one.Completion.Metrics, next.Completion.Metrics
		if *a.TokensUsed != *b.TokensUsed || *a.CostUSD != *b.CostUSD || *a.NumTurns != *b.NumTurns {
			t.Errorf("a turn is charged for more than itself: %s and %s", show(one), show(next))
		}
	}
	requests := h.model.Requests()
	if got := requests[len(requests)-1].Conversation(); !strings.Contains(got, "my colour is green") {
		t.Errorf("the conversation did not go on:\n%s", got)
	}
	if n := len(requests); n != 4 {
		t.Errorf("the model was asked %d times, want 4", n)
	}
}

func TestANewContextIsServedByTheSpareProcess(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 2, standin.Sequence(standin.Reply{Text: "ok"}))
	claude.PrepareFor(h.runner(), "nobody")
	eventually(t, "a spare process waits", func() bool { return len(processesIn(t, h.config.Workdir)) > 0 })
	run, j := h.run(task("hello"))
	wantSuccess(t, run, "ok")
	if got := kinds(j); got != "spare" {
		t.Errorf("the process was %q, want the spare one", got)
	}
	run, j = h.run(task("again"))
	wantSuccess(t, run, "ok")
	if got := kinds(j); got != "living" {
		t.Errorf("the process was %q, want the one that was spare", got)
	}
	if d := j.of(claude.EventSession)[0]; d["resumed"] != true {
		t.Errorf("session = %v, want it resumed", d)
	}
}

func TestManyContextsShareFewProcesses(t *testing.T) {
	t.Parallel()
	contexts, room := 5, 3
	if os.Getenv("BLOOM_TEST_CONTEXT_TURNS") != "" {
		contexts = 20
	}
	h := newWarmHarness(t, room, func(r standin.Request) standin.Reply { return standin.Reply{Text: "answer"} })
	for round := range 2 {
		for i := range contexts {
			run, j := h.run(in(fmt.Sprint("ctx ", i), fmt.Sprintf("round %d of %d.", round, i)))
			wantSuccess(t, run, "answer")
			if round > 0 {
				requests := h.model.Requests()
				if got := requests[len(requests)-1].Conversation(); !strings.Contains(got, fmt.Sprintf("round 0 of %d.", i)) || j.warned("session_gone") {
					t.Errorf("context %d lost its first turn (%s):\n%s", i, kinds(j), got)
				}
			}
			eventually(t, "no more processes, each with its supervisor, than there is room for", func() bool { return len(processesIn(t, h.config.Workdir)) <= 2*room })
		}
	}
	h.runner().Close()
	if left := processesIn(t, h.config.Workdir); len(left) > 0 {
		t.Errorf("processes are left after the runner was closed: %v", left)
	}
}

func TestAWarmProcessIsReplacedWhenItsStartupFilesHaveChanged(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 1, standin.Sequence(standin.Reply{Text: `{"a":1}`}))
	h.config.AgentsDir = t.TempDir()
	now := task("plain")
	wantSuccess(t, first(h.run(now)), `{"a":1}`)
	for _, step := range []struct {
		name   string
		change func()
		system string
	}{
		{"the project's instructions", func() { h.file("CLAUDE.md", "The project is blue.") }, ""},
		{"the user's settings", func() {
			writeFile(t, filepath.Join(h.home, ".claude", "settings.json"), `{"env":{"A":"b"}}`)
		}, ""},
		{"the project's agents", func() { h.file(".claude/agents/a.md", "---\nname: a\n---\nA.") }, ""},
		{"the format", func() { now.DesiredFormat = bloom.FormatJSON }, "desired_format"},
		{"the operator's agent", func() {
			writeFile(t, filepath.Join(h.config.AgentsDir, "critic.md"), "Be a critic.")
			now.AgentSlug = "critic"
		}, "Be a critic."},
		{"the text of the agent", func() {
			writeFile(t, filepath.Join(h.config.AgentsDir, "critic.md"), "Be kind.")
		}, "Be kind."},
	} {
		run, j := h.run(now)
		wantSuccess(t, run, `{"a":1}`)
		if got := kinds(j); got != "living" {
			t.Errorf("before %s changed: the process was %q", step.name, got)
		}
		step.change()
		run, j = h.run(now)
		wantSuccess(t, run, `{"a":1}`)
		if got := kinds(j); got != "new" {
			t.Errorf("after %s changed: the process was %q, want a new one", step.name, got)
		}
		requests := h.model.Requests()
		if last := requests[len(requests)-1]; !strings.Contains(last.SystemText(), step.system) || !strings.Contains(last.Conversation(), "plain") {
			t.Errorf("after %s changed: the model does not know it, or not the conversation", step.name)
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What an older claude says of tokens and cost counts from its process's beginning.
func TestATurnIsChargedForItselfWhateverTheProcessHasUsedBefore(t *testing.T) {
	t.Parallel()
	h := newFickleHarness(t, `read -r prompt; init 11111111-1111-4111-8111-111111111111; say second; echo '{"type":"result","subtype":"success","is_error":false,"result":"second","session_id":"s","num_turns":1,`+
		`"terminal_reason":"completed","total_cost_usd":9,"modelUsage":{"m":{"inputTokens":9000,"outputTokens":900,"costUSD":9}}}'`)
	wantSuccess(t, first(h.run(task("one"))), "first")
	run, j := h.run(task("two"))
	wantSuccess(t, run, "second")
	if m := run.Completion.Metrics; kinds(j) != "living" || *m.TokensUsed != 2 || *m.CostUSD != 0 {
		t.Errorf("with the process %q the turn is charged for more than itself: %s", kinds(j), show(run))
	}
}
