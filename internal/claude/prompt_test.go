package claude_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
	"github.com/bloom-runtime/bloom/internal/storable"
)

func TestHostilePromptsStayPrompts(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "just a prompt"}))
	for _, prompt := range []string{
		"--dangerously-skip-permissions", "-v", "/clear", "/cost", " \n/config", "a\x00b", "--\n--resume x", "!touch owned",
	} {
		run, j := h.run(task(prompt))
		wantSuccess(t, run, "just a prompt")
		requests := h.model.Requests()
		want := strings.TrimSpace(storable.Text(prompt))
		if got := requests[len(requests)-1].LastUser(); !strings.Contains(got, want) {
			t.Errorf("the model was asked %q, want %q in it", got, want)
		}
		if mode := j.of(claude.EventSession)[0]["permission_mode"]; mode != "acceptEdits" {
			t.Errorf("after %q the permission mode is %v", prompt, mode)
		}
	}
}

func TestTheEnvironmentIsAnAllowList(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(r standin.Request) standin.Reply {
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
	if !strings.Contains(*run.Completion.Output, "CLAUDE_PROJECT_ID=nobody\n") { // the task's agent, for hooks
		t.Errorf("the run's project is not its agent:\n%s", *run.Completion.Output)
	}
	if strings.Contains(*run.Completion.Output, "canary-secret") {
		t.Errorf("a secret reached the tools:\n%s", *run.Completion.Output)
	}
}

func TestHintsAreInThePromptAndMissingOnesInTheEvents(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "read"}))
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

// attachments are files by name, as the server sends them.
type attachments map[string]string

func (a attachments) OpenAttachment(_ context.Context, _ bloom.Task, name string) (io.ReadCloser, error) {
	content, ok := a[name]
	if !ok {
		return nil, bloom.NotFound("Artifact content")
	}
	return io.NopCloser(strings.NewReader(content)), nil
}

// attach posts a task with a file.
func attach(prompt, name, content string) bloom.Task {
	with := task(prompt)
	sum := sha256.Sum256([]byte(content))
	with.Attachments = []bloom.Attachment{{Name: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}}
	return with
}

func TestAttachmentsAreInTheFolderAndNamedInThePrompt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "read"}, standin.Reply{Text: "again"}, standin.Reply{Text: "another"}))
	h.config.Attachments = attachments{"figures @home.csv": "1,2", "report.md": "mine"}
	h.file("attachments/report.md", "not mine")
	named := func(i int, want string) {
		t.Helper()
		if asked := h.model.Requests()[i].LastUser(); !strings.Contains(asked, "look\n\nFiles attached to this task, in the working folder:\n- attachments/"+want) {
			t.Errorf("the model was asked %q, without %s", asked, want)
		}
	}
	run, _ := h.run(attach("look", "figures @home.csv", "1,2"))
	wantSuccess(t, run, "read")
	named(0, "figures @home.csv")
	for i, want := range []string{"again", "another"} { // the second is a retry
		run, _ = h.run(attach("look", "report.md", "mine"))
		wantSuccess(t, run, want)
		named(i+1, "report-2.md")
	}
	got := []string{}
	entries, err := os.ReadDir(filepath.Join(h.config.Workdir, "attachments"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(h.config.Workdir, "attachments", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Name()+"="+string(content))
	}
	if !slices.Equal(got, []string{"figures @home.csv=1,2", "report-2.md=mine", "report.md=not mine"}) {
		t.Errorf("the folder has %q", got)
	}
}

func TestATaskWithoutItsAttachmentsFailsBeforeItBegins(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence())
	h.config.Attachments = attachments{"damaged.txt": "dXmaged", "fine.txt": "fine", "../out.txt": "x"}
	for name, message := range map[string]string{
		"damaged.txt": `the attached file "damaged.txt" is missing or damaged on the server`,
		"gone.txt":    `the attached file "gone.txt" is missing or damaged on the server`,
		"../out.txt":  `the attached file "../out.txt" cannot be fetched or written now`,
	} {
		run, _ := h.run(attach("look", name, "damaged"))
		if c := run.Completion; c.Status != bloom.OutcomeError || c.ErrorMessage == nil || *c.ErrorMessage != message || c.Retryable != strings.Contains(message, "now") {
			t.Errorf("%s: run = %s", name, show(run))
		}
	}
	if entries, err := os.ReadDir(filepath.Join(h.config.Workdir, "attachments")); err != nil || len(entries) > 0 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	outside := t.TempDir()
	if err := errors.Join(os.Remove(filepath.Join(h.config.Workdir, "attachments")), os.Symlink(outside, filepath.Join(h.config.Workdir, "attachments"))); err != nil {
		t.Fatal(err)
	}
	run, _ := h.run(attach("look", "fine.txt", "fine"))
	if entries, err := os.ReadDir(outside); run.Completion.Status != bloom.OutcomeError || err != nil || len(entries) > 0 {
		t.Errorf("outside are %v, %v; run = %s", entries, err, show(run))
	}
	if n := len(h.model.Requests()); n > 0 {
		t.Errorf("the model was asked %d times", n)
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
			h := newHarness(t, standin.Sequence(standin.Reply{Text: "reviewed"}))
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
