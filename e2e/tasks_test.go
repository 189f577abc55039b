package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// TestTasks runs scenarios of one task each against one server. Workers with differences have a
// label, which their tasks require.
func TestTasks(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.work(workerOptions{name: "main", args: []string{"--max-concurrency", "3", "--label", "main", "--allowed-tool", "Bash"}})
	h.work(workerOptions{name: "anonymous", env: h.modelEnv(""), args: []string{"--max-concurrency", "1", "--label", "anonymous"}})
	h.work(workerOptions{name: "bare", args: []string{"--max-concurrency", "1", "--label", "bare", "--claude", filepath.Join(h.dir, "none", "claude")}})
	h.work(workerOptions{name: "subscriber", env: h.modelEnv("CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-dummy"), args: []string{"--max-concurrency", "1", "--label", "subscriber"}})
	for name, scenario := range map[string]func(*testing.T, *harness){
		"success":            success,
		"a tool edits":       toolUse,
		"json":               jsonOutput,
		"agent":              agent,
		"hints":              hints,
		"attachments":        attached,
		"resume":             resume,
		"timeout":            timeout,
		"cancel":             cancel,
		"running cost":       runningCost,
		"budget":             budget,
		"not logged in":      notLoggedIn,
		"the API refuses":    refusals,
		"the key is refused": refusedKey,
		"rate limited":       rateLimited,
		"claude is missing":  missing,
		"hostile prompt":     hostile,
		"twenty megabytes":   huge,
		"two of one context": twoOfOneContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, h)
		})
	}
}

// at requires the worker with the label.
func at(worker string, s bloom.TaskSpec) bloom.TaskSpec {
	s.Labels = []string{worker}
	return s
}

func success(t *testing.T, h *harness) {
	h.script("success", standin.Sequence(standin.Reply{Text: "four", Usage: standin.Usage{Input: 100, Output: 20, CacheCreation: 7}}))
	o := h.await(t, h.submit(t, at("main", spec("success"))).ID)
	o.succeeded("four")
	m := o.results[0].Metrics
	if m.TokensUsed == nil || *m.TokensUsed != 127 || m.CostUSD == nil || *m.CostUSD <= 0 || m.CostKind != "api_usd" || m.Model == "" || m.DurationMS <= 0 {
		t.Errorf("metrics = %s, want tokens, cost and model", storable.MustJSON(m))
	}
	if got, want := o.actions(), "task_created task_leased task_started task_completed"; got != want {
		t.Errorf("audit = %s, want %s", got, want)
	}
	if texts := o.of("text"); len(texts) != 1 || texts[0]["text"] != "four" {
		t.Errorf("text events = %v", texts)
	}
	if first, last := o.events[0].Type, o.events[len(o.events)-1].Type; first != bloom.EventCreated || last != bloom.EventCompleted {
		t.Errorf("the stream runs from %s to %s", first, last)
	}
	if o.task.WorkerID == nil || *o.task.WorkerID != "main" || o.task.Attempts != 1 {
		t.Errorf("task = %s, want its worker to stay named", storable.MustJSON(o.task.TaskState))
	}
}

// runningCost follows what a run has used so far. The worker reports it with its claims; every
// task that ends makes it claim.
func runningCost(t *testing.T, h *harness) {
	h.script("claim", func(standin.Request) standin.Reply { return standin.Reply{Text: "done"} })
	first, second := make(chan struct{}), make(chan struct{})
	step := standin.Tool("a step", "Bash", map[string]any{"command": "true", "description": "nothing"})
	step.Usage = standin.Usage{Input: 100, Output: 20}
	next := step
	next.Until = first
	h.script("running", standin.Sequence(step, next, standin.Reply{Text: "done", Usage: step.Usage, Until: second}))
	task := h.submit(t, at("main", spec("running")))
	until := func(tokens int64) float64 {
		t.Helper()
		for {
			got, err := h.api.Task(t.Context(), task.ID)
			if err != nil || got.Status.Terminal() {
				t.Fatalf("the task is %s, %v", got.Status, err)
			}
			if u := got.Usage; u != nil && u.TokensUsed == tokens {
				st, err := h.api.Stats(t.Context())
				if err != nil || st.Leases.Usage.CostUSD < u.CostUSD {
					t.Errorf("the overview shows %+v, the task %+v, %v", st.Leases.Usage, u, err)
				}
				return u.CostUSD
			}
			h.await(t, h.submit(t, at("main", spec("claim"))).ID)
		}
	}
	early := until(120)
	close(first)
	if late := until(240); early <= 0 || late <= early {
		t.Errorf("the cost rose from %v to %v", early, late)
	}
	close(second)
	o := h.await(t, task.ID)
	o.succeeded("done")
	if o.task.Usage == nil || *o.task.Usage != o.results[0].Metrics.Usage() {
		t.Errorf("the task shows %+v, its result %s", o.task.Usage, storable.MustJSON(o.results[0].Metrics))
	}
}

func toolUse(t *testing.T, h *harness) {
	path := filepath.Join(h.workdir("main"), "edited.txt")
	file(t, path, "before")
	h.script("tool", func(r standin.Request) standin.Reply {
		switch last := r.LastUser(); {
		case !r.HasToolResult():
			return standin.Tool("reading", "Read", map[string]any{"file_path": path})
		case strings.Contains(last, "before"):
			return standin.Tool("editing", "Edit", map[string]any{"file_path": path, "old_string": "before", "new_string": "after"})
		default:
			return standin.Reply{Text: "edited"}
		}
	})
	o := h.await(t, h.submit(t, at("main", spec("tool"))).ID)
	o.succeeded("edited")
	if content, err := os.ReadFile(path); err != nil || string(content) != "after" {
		t.Errorf("file = %q, %v", content, err)
	}
	if uses := o.of("tool_use"); len(uses) != 2 || uses[0]["name"] != "Read" || uses[1]["name"] != "Edit" {
		t.Errorf("tool_use events = %v", uses)
	}
	for _, result := range o.of("tool_result") {
		if result["is_error"] != false {
			t.Errorf("tool_result = %v", result)
		}
	}
}

func jsonOutput(t *testing.T, h *harness) {
	h.script("json", standin.Sequence(standin.Reply{Text: "here you are"}, standin.Reply{Text: "```json\n{\"a\": [1]}\n```"}))
	s := at("main", spec("json"))
	s.DesiredFormat = bloom.FormatJSON
	o := h.await(t, h.submit(t, s).ID)
	o.succeeded(`{"a": [1]}`)
	if n := len(h.asked("scenario json;")); n != 2 {
		t.Errorf("the model was asked %d times, want once more for the repair", n)
	}
}

func agent(t *testing.T, h *harness) {
	h.script("agent", standin.Sequence(standin.Reply{Text: "reviewed"}))
	file(t, filepath.Join(h.dir, "agents-main", "reviewer.md"), "---\nname: reviewer\ndescription: reviews\n---\nYou review with great care.\n")
	s := at("main", spec("agent"))
	s.AgentSlug = "reviewer"
	h.await(t, h.submit(t, s).ID).succeeded("reviewed")
	if requests := h.asked("scenario agent;"); len(requests) != 1 || !strings.Contains(requests[0].SystemText(), "You review with great care.") {
		t.Error("the agent's text is not in the system prompt")
	}
}

func hints(t *testing.T, h *harness) {
	h.script("hints", standin.Sequence(standin.Reply{Text: "read"}))
	file(t, filepath.Join(h.workdir("main"), "notes", "deep", "a.md"), "alpha content")
	file(t, filepath.Join(h.dir, "outside.md"), "secret content")
	s := at("main", spec("hints"))
	s.ContextHints = []string{"notes/**/*.md", "gone.txt", "../outside.md"}
	o := h.await(t, h.submit(t, s).ID)
	o.succeeded("read")
	asked := h.asked("scenario hints;")[0].LastUser()
	if a, p := strings.Index(asked, "alpha content"), strings.Index(asked, "scenario hints;"); a < 0 || p < a || strings.Contains(asked, "secret content") {
		t.Errorf("the model was asked %q, want the file before the prompt and nothing from outside", asked)
	}
	if missed := o.of("hint_missing"); len(missed) != 2 || missed[0]["hint"] != "gone.txt" || missed[1]["hint"] != "../outside.md" {
		t.Errorf("missing = %v", missed)
	}
}

func attached(t *testing.T, h *harness) {
	h.script("attached", func(r standin.Request) standin.Reply {
		switch last := r.LastUser(); {
		case !r.HasToolResult():
			return standin.Tool("reading", "Read", map[string]any{"file_path": filepath.Join(h.workdir("main"), "attachments", "figures.csv")})
		case strings.Contains(last, "june,7"):
			return standin.Reply{Text: "june"}
		default:
			return standin.Reply{Text: "unknown"}
		}
	})
	path := filepath.Join(h.dir, "figures.csv")
	file(t, path, "may,5\njune,7\n")
	h.bloom(t, "", "task", "run", "scenario attached; go on", "--label", "main", "--attach", path).want(t, 0, "june", "")
	if asked := h.asked("scenario attached;")[0].LastUser(); !strings.Contains(asked, "- attachments/figures.csv") {
		t.Errorf("the model was asked %q, which does not name the file", asked)
	}
}

func resume(t *testing.T, h *harness) {
	h.script("resume", standin.Sequence(standin.Reply{Text: "noted"}, standin.Reply{Text: "green"}))
	first, second := at("main", spec("resume")), at("main", spec("resume"))
	first.Prompt += ", my colour is green"
	second.Prompt += ", what is my colour?"
	h.await(t, h.submit(t, first).ID).succeeded("noted")
	o := h.await(t, h.submit(t, second).ID)
	o.succeeded("green")
	requests := h.asked("scenario resume;")
	if got := requests[len(requests)-1].Conversation(); !strings.Contains(got, "my colour is green") || !strings.Contains(got, "noted") {
		t.Errorf("the second request lacks the first's messages:\n%s", got)
	}
	if sessions := o.of("session"); len(sessions) != 1 || sessions[0]["resumed"] != true {
		t.Errorf("session events = %v", sessions)
	}
}

func twoOfOneContext(t *testing.T, h *harness) {
	release := make(chan struct{})
	h.script("fork", func(r standin.Request) standin.Reply {
		if strings.Contains(r.LastUser(), "slowly") {
			return standin.Reply{Text: "slow", Until: release}
		}
		return standin.Reply{Text: "quick"}
	})
	h.await(t, h.submit(t, at("main", spec("fork"))).ID).succeeded("quick")
	s := at("main", spec("fork"))
	s.Prompt += ", slowly"
	slow := h.submit(t, s)
	h.untilEvent(t, slow.ID, "session")
	o := h.await(t, h.submit(t, at("main", spec("fork"))).ID)
	close(release)
	o.succeeded("quick")
	if sessions := o.of("session"); len(sessions) != 1 || sessions[0]["forked"] != true {
		t.Errorf("session events = %v, want a fork", sessions)
	}
	h.await(t, slow.ID).succeeded("slow")
}
