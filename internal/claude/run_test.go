package claude_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestSuccessHasOutputMetricsAndEvents(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "four", Usage: standin.Usage{Input: 100, Output: 20, CacheCreation: 7, CacheRead: 3}}))
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
	var h *harness
	h = newHarness(t, func(r standin.Request) standin.Reply {
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

func first(run attempt.Run, _ *journal) attempt.Run { return run }

func TestALineOfTwentyMegabytes(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("0123456789abcdef", 20<<20/16)
	h := newHarness(t, standin.Sequence(standin.Reply{Text: huge}))
	run, j := h.run(task("much"))
	if c := run.Completion; c.Status != bloom.OutcomeSuccess || *c.Output != huge {
		t.Fatalf("run = %s", show(run))
	}
	if texts := j.of(claude.EventText); len(texts) != 1 || texts[0]["truncated"] != true {
		t.Error("the event with the huge text is not cut and marked")
	}
}

func TestTheCannedDemonstrationWritesAFileAndIsLabelled(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Canned)
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
