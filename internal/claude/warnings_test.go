package claude_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// warned reports whether the outcome carries a warning of the code.
func warned(run attempt.Run, code string) bool {
	return slices.ContainsFunc(run.Completion.Metrics.Warnings, func(w bloom.Warning) bool { return w.Code == code && w.Text != "" })
}

func TestASuccessWithEveryToolDeniedHasAWarning(t *testing.T) {
	t.Parallel()
	var h *harness
	denied := map[string]any{"command": "python3 -c 'open(\"made\", \"w\")'", "description": "make a file"}
	h = newHarness(t, func(r standin.Request) standin.Reply {
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
	h := newHarness(t, func(r standin.Request) standin.Reply {
		if r.HasToolResult() {
			return standin.Reply{Text: "it runs"}
		}
		return standin.Tool("", "Bash", map[string]any{"command": "sleep 600", "description": "wait", "run_in_background": true})
	})
	h.config.AllowedTools = []string{"Bash"}
	h.config.Silence = 5 * time.Second // how long it is waited for
	run, _ := h.run(task("start it"))
	wantSuccess(t, run, "it runs")
	if !warned(run, "background_work") {
		t.Errorf("run = %s, want a warning of the background work", show(run))
	}
}
