package claude_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestSuccessHasOutputMetricsAndEvents(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "four", Usage: standin.Usage{Input: 100, Output: 20, CacheCreation: 7, CacheRead: 3}}))
	run, j := h.run(task("two and two?"))
	wantSuccess(t, run, "four")
	m := run.Completion.Metrics
	if m.TokensUsed == nil || *m.TokensUsed != 127 || *m.InputTokens != 107 || *m.OutputTokens != 20 {
		t.Errorf("metrics = %s, want 127 tokens", show(run))
	}
	if m.CostKind != "api_usd" || m.CostUSD == nil || *m.CostUSD <= 0 || m.Model == "" || m.NumTurns == nil {
		t.Errorf("metrics = %s, want a cost paid by API key, a model and turns", show(run))
	}
	if texts := j.of(claude.EventText); len(texts) != 1 || texts[0]["text"] != "four" {
		t.Errorf("text events = %v", texts)
	}
	if sessions := j.of(claude.EventSession); len(sessions) != 1 || sessions[0]["resumed"] != false {
		t.Errorf("session events = %v", sessions)
	}
	if got := h.model.Requests()[0].LastUser(); !strings.Contains(got, "two and two?") {
		t.Errorf("the model was asked %q", got)
	}
}

func TestToolUseEditsAFileInTheWorkdir(t *testing.T) {
	t.Parallel()
	var h *house
	h = newHouse(t, func(r standin.Request) standin.Reply {
		if r.HasToolResult() {
			return standin.Reply{Text: "written"}
		}
		return standin.Tool("writing", "Write", map[string]any{
			"file_path": filepath.Join(h.config.Workdir, "made.txt"), "content": "by a tool",
		})
	})
	run, j := h.run(task("make a file"))
	wantSuccess(t, run, "written")
	content, err := os.ReadFile(filepath.Join(h.config.Workdir, "made.txt"))
	if err != nil || string(content) != "by a tool" {
		t.Errorf("file = %q, %v", content, err)
	}
	if uses := j.of(claude.EventToolUse); len(uses) != 1 || uses[0]["name"] != "Write" {
		t.Errorf("tool_use events = %v", uses)
	}
	if results := j.of(claude.EventToolResult); len(results) != 1 || results[0]["is_error"] != false {
		t.Errorf("tool_result events = %v", results)
	}
}

func TestJSONOutputLosesItsFence(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "```json\n{\"a\": 1}\n```"}))
	jsonTask := task("json please")
	jsonTask.DesiredFormat = bloom.FormatJSON
	run, _ := h.run(jsonTask)
	wantSuccess(t, run, `{"a": 1}`)
	if !strings.Contains(h.model.Requests()[0].SystemText(), "desired_format") {
		t.Error("the model was not told that JSON is wanted")
	}
}

func TestJSONOutputIsRepairedOnceInTheSameSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "here you are"}, standin.Reply{Text: "[1]"}))
	jsonTask := task("json please")
	jsonTask.DesiredFormat = bloom.FormatJSON
	run, j := h.run(jsonTask)
	wantSuccess(t, run, "[1]")
	if !j.warned("output_repair") {
		t.Error("the repair is not in the events")
	}
	requests := h.model.Requests()
	if last := requests[len(requests)-1].Conversation(); !strings.Contains(last, "json please") || !strings.Contains(last, "here you are") {
		t.Errorf("the repair was not asked in the same session:\n%s", last)
	}
	if used := run.Completion.Metrics.TokensUsed; used == nil || *used != 30 {
		t.Errorf("metrics = %s, want both turns' 30 tokens", show(run))
	}
}

func TestJSONOutputThatStaysInvalidFails(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "never"}))
	jsonTask := task("json please")
	jsonTask.DesiredFormat = bloom.FormatJSON
	run, _ := h.run(jsonTask)
	wantError(t, run, bloom.ClassOutputInvalid)
	if n := len(h.model.Requests()); n != 2 {
		t.Errorf("the model was asked %d times, want 2", n)
	}
	if run.Completion.Output == nil || *run.Completion.Output != "never" {
		t.Errorf("run = %s, want the invalid output kept", show(run))
	}
}

func TestResumeCarriesTheFirstTasksMessages(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "noted"}, standin.Reply{Text: "green"}))
	wantSuccess(t, first(h.run(task("my colour is green"))), "noted")
	run, j := h.run(task("what is my colour?"))
	wantSuccess(t, run, "green")
	requests := h.model.Requests()
	if got := requests[len(requests)-1].Conversation(); !strings.Contains(got, "my colour is green") || !strings.Contains(got, "noted") {
		t.Errorf("the second request lacks the first's messages:\n%s", got)
	}
	if sessions := j.of(claude.EventSession); len(sessions) != 1 || sessions[0]["resumed"] != true {
		t.Errorf("session events = %v", sessions)
	}
}

func TestAResumedTaskIsChargedForItselfOnly(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "ok", Usage: standin.Usage{Input: 1000, Output: 100}}))
	one, two := first(h.run(task("one"))).Completion.Metrics, first(h.run(task("two"))).Completion.Metrics
	if *one.TokensUsed != 1100 || *two.TokensUsed != 1100 || *one.CostUSD != *two.CostUSD {
		t.Errorf("first %d tokens, %g dollars; second %d tokens, %g dollars; want the same",
			*one.TokensUsed, *one.CostUSD, *two.TokensUsed, *two.CostUSD)
	}
}

func TestARateLimitWithAResetTimeGivesTheTaskBack(t *testing.T) {
	t.Parallel()
	reset := time.Now().Add(time.Hour).Unix()
	reply := standin.Error(429, "rate_limit_error", "This request would exceed your account's rate limit.")
	reply.Header = map[string]string{
		"anthropic-ratelimit-unified-status":               "rejected",
		"anthropic-ratelimit-unified-reset":                fmt.Sprint(reset),
		"anthropic-ratelimit-unified-representative-claim": "five_hour",
		"retry-after": "3600",
	}
	h := newHouse(t, standin.Sequence(reply))
	h.setEnv("ANTHROPIC_API_KEY", "")
	h.setEnv("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-dummy")
	h.config.MaxRetries = 1
	run, j := h.run(task("hello"))
	wantError(t, run, bloom.ClassRateLimited)
	if run.Release == nil || run.Release.NotBefore != reset*1000 {
		t.Errorf("run = %s, want a release until %d; events %v", show(run), reset*1000, j.events)
	}
}

func first(run bloom.Run, _ *journal) bloom.Run { return run }

func TestALostSessionBeginsANewOneAndSaysSo(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "ok"}))
	wantSuccess(t, first(h.run(task("one"))), "ok")
	h.runner().Close() // a process that is kept alive needs no files
	if err := os.RemoveAll(filepath.Join(h.home, ".claude", "projects")); err != nil {
		t.Fatal(err)
	}
	run, j := h.run(task("two"))
	wantSuccess(t, run, "ok")
	if !j.warned("session_gone") {
		t.Error("nothing says that the session was gone")
	}
}

func TestTwoTasksOfOneContextForkTheSession(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	h := newHouse(t, func(r standin.Request) standin.Reply {
		if strings.Contains(r.LastUser(), "slow") {
			return standin.Reply{Text: "slow done", Until: release}
		}
		return standin.Reply{Text: "quick done"}
	})
	runner := h.runner()
	wantSuccess(t, runner.Run(t.Context(), task("begin"), nil), "quick done")
	slow := &journal{}
	running := slow.on(claude.EventSession)
	ended := make(chan bloom.Run)
	go func() { ended <- runner.Run(t.Context(), task("slow"), slow.emit) }()
	<-running
	quick := &journal{}
	wantSuccess(t, runner.Run(t.Context(), task("meanwhile"), quick.emit), "quick done")
	close(release)
	wantSuccess(t, <-ended, "slow done")
	if !quick.warned("session_forked") {
		t.Error("nothing says that the session was forked")
	}
	a, b := slow.of(claude.EventSession)[0], quick.of(claude.EventSession)[0]
	if a["session_id"] == b["session_id"] || b["forked"] != true {
		t.Errorf("sessions = %v and %v, want a fork", a, b)
	}
}

func TestTimeoutEndsTheRun(t *testing.T) {
	t.Parallel()
	for timeout := 4; ; timeout *= 2 {
		var asked atomic.Pointer[time.Time]
		h := newHouse(t, func(standin.Request) standin.Reply {
			now := time.Now()
			asked.Store(&now)
			return standin.Reply{Text: "late", HangAfterStart: true, Until: make(chan struct{}), Usage: standin.Usage{Input: 1000, Output: 1}}
		})
		slow := task("hang")
		slow.Policy.TimeoutSec = timeout
		run, _ := h.run(slow)
		wantError(t, run, bloom.ClassTimeout)
		if at := asked.Load(); timeout < 100 && (at == nil || time.Since(*at) < time.Duration(timeout)*time.Second/4) {
			continue // a busy machine: the time was over before claude could read the beginning
		}
		m := run.Completion.Metrics
		if m.TokensUsed == nil || *m.TokensUsed < 1000 || m.CostUSD == nil || *m.CostUSD <= 0 {
			t.Errorf("metrics = %s, want the tokens and cost of the killed run", show(run))
		}
		return
	}
}

func TestSilenceEndsTheRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Until: make(chan struct{})}))
	h.config.Silence = 3 * time.Second
	run, _ := h.run(task("hang"))
	wantError(t, run, bloom.ClassTimeout)
}

func TestTheCauseOfACancelledContextDecides(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cause   error
		class   bloom.ErrorClass
		release bool
	}{
		"cancelled by a person": {bloom.ErrCancelled, bloom.ClassCancelled, false},
		"lease lost":            {bloom.ErrLeaseGone, bloom.ClassWorkerLost, false},
		"worker draining":       {bloom.ErrDraining, bloom.ClassWorkerLost, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, standin.Sequence(standin.Reply{Until: make(chan struct{})}))
			ctx, cancel := context.WithCancelCause(t.Context())
			j := &journal{}
			running := j.on(claude.EventSession)
			go func() { <-running; cancel(test.cause) }()
			run := h.runner().Run(ctx, task("hang"), j.emit)
			wantError(t, run, test.class)
			if (run.Release != nil) != test.release {
				t.Errorf("run = %s, want release %v", show(run), test.release)
			}
		})
	}
}

func TestBudgetIsEnforced(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(standin.Request) standin.Reply {
		reply := standin.Tool("on and on", "Bash", map[string]any{"command": "true", "description": "nothing"})
		reply.Usage = standin.Usage{Input: 400, Output: 100}
		return reply
	})
	greedy := task("spend")
	greedy.Policy.Budget = 1200
	run, _ := h.run(greedy)
	wantError(t, run, bloom.ClassBudgetExceeded)
	if used := run.Completion.Metrics.TokensUsed; used == nil || *used <= 1200 {
		t.Errorf("metrics = %s, want what was used", show(run))
	}
	if n := len(h.model.Requests()); n > 5 {
		t.Errorf("the model was asked %d times after the budget was used up", n)
	}
}

func TestNotLoggedIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{}))
	h.setEnv("ANTHROPIC_API_KEY", "")
	run, _ := h.run(task("hello"))
	wantError(t, run, bloom.ClassAuth)
	if n := len(h.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestAPIErrorsHaveTheirClasses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply standin.Reply
		class bloom.ErrorClass
	}{
		"401": {standin.Error(401, "authentication_error", "invalid x-api-key"), bloom.ClassAuth},
		"403": {standin.Error(403, "permission_error", "not yours"), bloom.ClassAuth},
		"400": {standin.Error(400, "invalid_request_error", "no such field"), bloom.ClassInvalidInput},
		"400 too long": {standin.Error(400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum"),
			bloom.ClassContextTooLong},
		"400 no credit": {standin.Error(400, "invalid_request_error", "Your credit balance is too low to access the API."), bloom.ClassAuth},
		"429":           {standin.Error(429, "rate_limit_error", "slow down"), bloom.ClassRateLimited},
		"529":           {standin.Error(529, "overloaded_error", "overloaded"), bloom.ClassProviderError},
		"500":           {standin.Error(500, "api_error", "broken"), bloom.ClassProviderError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, standin.Sequence(test.reply))
			h.config.MaxRetries = 1
			run, _ := h.run(task("hello"))
			wantError(t, run, test.class)
		})
	}
}

func TestCLIMissing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence())
	h.config.Path = filepath.Join(t.TempDir(), "claude")
	run, _ := h.run(task("hello"))
	wantError(t, run, bloom.ClassInternal)
	if !run.Completion.Retryable || strings.Contains(*run.Completion.ErrorMessage, h.config.Path) {
		t.Errorf("run = %s, want retryable and no path of the worker", show(run))
	}
}

func TestHostilePromptsStayPrompts(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "just a prompt"}))
	for _, prompt := range []string{
		"--dangerously-skip-permissions", "-v", "/clear", "/cost", " \n/config", "a\x00b", "--\n--resume x", "!touch owned",
	} {
		run, j := h.run(task(prompt))
		wantSuccess(t, run, "just a prompt")
		requests := h.model.Requests()
		want := strings.TrimSpace(bloom.CleanText(prompt))
		if got := requests[len(requests)-1].LastUser(); !strings.Contains(got, want) {
			t.Errorf("the model was asked %q, want %q in it", got, want)
		}
		if mode := j.of(claude.EventSession)[0]["permission_mode"]; mode != "acceptEdits" {
			t.Errorf("after %q the permission mode is %v", prompt, mode)
		}
	}
}

func TestALineOfTwentyMegabytes(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("0123456789abcdef", 20<<20/16)
	h := newHouse(t, standin.Sequence(standin.Reply{Text: huge}))
	run, j := h.run(task("much"))
	if c := run.Completion; c.Status != bloom.OutcomeSuccess || *c.Output != huge {
		t.Fatalf("run = %s", show(run))
	}
	if texts := j.of(claude.EventText); len(texts) != 1 || texts[0]["truncated"] != true {
		t.Error("the event with the huge text is not cut and marked")
	}
}

func TestTheEnvironmentIsAnAllowList(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(r standin.Request) standin.Reply {
		if r.HasToolResult() {
			return standin.Reply{Text: r.LastUser()}
		}
		return standin.Tool("", "Bash", map[string]any{"command": "env", "description": "show"})
	})
	h.config.AllowedTools = []string{"Bash"}
	for _, name := range []string{
		"RUNTIME_API_KEY", "RUNTIME_WORKER_KEY", "MEMBRIDGE_ADMIN_KEY", "MINIO_SECRET_KEY", "DATABASE_URL", "BLOOM_API_KEY",
		"CLAUDECODE_CANARY", "CLAUDE_CODE_ENTRYPOINT_CANARY", "AWS_SECRET_ACCESS_KEY", "SOME_TOKEN",
	} {
		h.setEnv(name, "canary-secret")
	}
	h.setEnv("NAMED", "let-through")
	h.config.PassEnv = []string{"NAMED"}
	run, _ := h.run(task("env"))
	if run.Completion.Output == nil || !strings.Contains(*run.Completion.Output, "NAMED=let-through") {
		t.Fatalf("run = %s, want the named variable", show(run))
	}
	if strings.Contains(*run.Completion.Output, "canary-secret") {
		t.Errorf("a secret reached the tools:\n%s", *run.Completion.Output)
	}
}

func TestHintsAreInThePromptAndMissingOnesInTheEvents(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "read"}))
	h.file("notes/a.md", "alpha content")
	h.file("notes/deep/b.md", "beta content")
	hinted := task("use the notes")
	hinted.ContextHints = []string{"notes/**/*.md", "gone.txt", "../outside"}
	run, j := h.run(hinted)
	wantSuccess(t, run, "read")
	asked := h.model.Requests()[0].LastUser()
	a, b, p := strings.Index(asked, "alpha content"), strings.Index(asked, "beta content"), strings.Index(asked, "use the notes")
	if a < 0 || b < a || p < b {
		t.Errorf("the model was asked %q, want both files, then the prompt", asked)
	}
	var missing []string
	for _, d := range j.of(claude.EventHintMissing) {
		missing = append(missing, d["hint"].(string))
	}
	if !slices.Equal(missing, []string{"gone.txt", "../outside"}) {
		t.Errorf("missing = %v", missing)
	}
}

func TestAgents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, slug, want string
	}{
		"one of claude's own, by its name":   {"work/.claude/agents/some-file.md", "reviewer", "You review with care."},
		"one of the user's":                  {"home/.claude/agents/reviewer.md", "reviewer", "You review with care."},
		"one of the operator's, by its file": {"agents/reviewer.md", "reviewer", "You review with care."},
		"unknown":                            {"agents/other.md", "reviewer", ""},
		"hostile":                            {"agents/other.md", "--dangerously-skip-permissions", ""},
		"path":                               {"other.md", "../other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, standin.Sequence(standin.Reply{Text: "reviewed"}))
			h.config.AgentsDir = t.TempDir()
			base, rest, _ := strings.Cut(test.file, "/")
			dir := map[string]string{"work": h.config.Workdir, "home": h.home, "agents": h.config.AgentsDir}[base]
			if dir == "" {
				dir, rest = filepath.Dir(h.config.AgentsDir), base
			}
			path := filepath.Join(dir, rest)
			content := "---\nname: reviewer\ndescription: reviews\n---\nYou review with care.\n"
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			agentTask := task("review this")
			agentTask.AgentSlug = test.slug
			run, _ := h.run(agentTask)
			wantSuccess(t, run, "reviewed")
			got := strings.Contains(h.model.Requests()[0].SystemText(), "You review with care.")
			if got != (test.want != "") {
				t.Errorf("agent's text in the system prompt: %v", got)
			}
		})
	}
}

func TestTheCannedDemonstrationWritesAFileAndSaysThatItIsCanned(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Canned)
	for range 2 { // also in a context that has a session
		run, _ := h.run(task("show me"))
		if c := run.Completion; c.Status != bloom.OutcomeSuccess || !strings.HasPrefix(*c.Output, standin.CannedLabel) {
			t.Fatalf("run = %s, want a canned success", show(run))
		}
	}
	files, err := filepath.Glob(filepath.Join(h.config.Workdir, "bloom-demo-*.txt"))
	if err != nil || len(files) != 2 {
		t.Errorf("files = %v, %v; want one from each task", files, err)
	}
	jsonTask := task("show me")
	jsonTask.DesiredFormat = bloom.FormatJSON
	run, _ := h.run(jsonTask)
	if c := run.Completion; c.Status != bloom.OutcomeSuccess || !json.Valid([]byte(*c.Output)) {
		t.Errorf("run = %s, want canned JSON", show(run))
	}
}

// warned reports whether the outcome carries a warning of the code.
func warned(run bloom.Run, code string) bool {
	return slices.ContainsFunc(run.Completion.Metrics.Warnings, func(w bloom.Warning) bool { return w.Code == code && w.Text != "" })
}

func TestASuccessDuringWhichEveryToolWasDeniedSaysSo(t *testing.T) {
	t.Parallel()
	var h *house
	denied := map[string]any{"command": "python3 -c 'open(\"made\", \"w\")'", "description": "make a file"}
	h = newHouse(t, func(r standin.Request) standin.Reply {
		switch {
		case r.HasToolResult() && (!strings.Contains(r.Conversation(), "both") || strings.Contains(r.LastUser(), "ermission")):
			return standin.Reply{Text: "all done"}
		case strings.Contains(r.Conversation(), "both") && !r.HasToolResult():
			return standin.Tool("", "Write", map[string]any{"file_path": filepath.Join(h.config.Workdir, "x"), "content": "x"})
		}
		return standin.Tool("", "Bash", denied)
	})
	run, events := h.run(task("only what is denied"))
	wantSuccess(t, run, "all done")
	if !warned(run, "permission_denied") || !warned(run, "nothing_permitted") {
		t.Errorf("run = %s, want warnings that nothing was permitted", show(run))
	}
	if n := events.warnings("permission_denied"); n != 1 {
		t.Errorf("one denial was reported %d times", n)
	}
	other := task("both")
	other.ContextID = "other"
	run, _ = h.run(other)
	wantSuccess(t, run, "all done")
	if !warned(run, "permission_denied") || warned(run, "nothing_permitted") {
		t.Errorf("run = %s, want a warning of the one denial only", show(run))
	}
}

func TestBackgroundWorkThatEndedWithTheTurnIsInTheOutcome(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(r standin.Request) standin.Reply {
		if r.HasToolResult() {
			return standin.Reply{Text: "it runs"}
		}
		return standin.Tool("", "Bash", map[string]any{"command": "sleep 600", "description": "wait", "run_in_background": true})
	})
	h.config.AllowedTools = []string{"Bash"}
	run, _ := h.run(task("start it"))
	wantSuccess(t, run, "it runs")
	if !warned(run, "background_work") {
		t.Errorf("run = %s, want a warning of the background work", show(run))
	}
}
