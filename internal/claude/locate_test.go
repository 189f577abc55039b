package claude_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence())
	status, err := claude.Check(t.Context(), h.config)
	if err != nil || !status.LoggedIn || !strings.Contains(status.Version, "Claude Code") {
		t.Errorf("with a key: %+v, %v", status, err)
	}
	h.setEnv("ANTHROPIC_API_KEY", "")
	status, err = claude.Check(t.Context(), h.config)
	if err != nil || status.LoggedIn || status.Login == "" {
		t.Errorf("without a key: %+v, %v", status, err)
	}
	if n := len(h.model.Requests()); n != 0 {
		t.Errorf("the check asked the model %d times", n)
	}
}

func TestTheAgentsThatAWorkerTellsOf(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence())
	h.config.AgentsDir = t.TempDir()
	for path, content := range map[string]string{
		filepath.Join(h.config.Workdir, ".claude/agents/deep/a-file.md"): "---\nname: reviewer\n---\nYou review.",
		filepath.Join(h.home, ".claude/agents/b.md"):                     "---\nname: --flag\n---\n",
		filepath.Join(h.home, ".claude/agents/c.txt"):                    "---\nname: no-agent\n---\n",
		filepath.Join(h.config.AgentsDir, "writer.md"):                   "You write.",
		filepath.Join(h.config.AgentsDir, "below", "not-found.md"):       "You are never found.",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.config.Agents(t.Context()); !slices.Equal(got, []string{"reviewer", "writer"}) {
		t.Errorf("agents = %q", got)
	}
}
