package claude_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// manyFiles fills the folder with n empty files in a deep tree.
func manyFiles(t *testing.T, dir string, n int) {
	t.Helper()
	const each = 500
	for made := 0; made < n; made += each {
		dir = filepath.Join(dir, "aaaaaaaaaaaaaaaaaaaaaaaaa")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range each {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%daaaaaaaaaaaaaaaaaaaaab", i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// costly patterns match a long name in very many ways.
var costly = []string{
	strings.Repeat("**/", 1300) + "x",
	strings.Repeat("**/*a*/", 580) + "x",
	"**/" + strings.Repeat("*a", 2000) + "c",
}

func TestCostlyHintsAreBounded(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	manyFiles(t, work, 4_000)
	var hints []string
	for range 20 {
		hints = append(hints, costly...)
	}
	began := time.Now()
	if names, _, skipped := claude.GatherHints(t.Context(), work, hints, 1<<20); len(names) > 0 || len(skipped) != len(hints) {
		t.Errorf("%d files and %d missed hints, want none and all", len(names), len(skipped))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the hints took %s", took)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	began = time.Now()
	claude.GatherHints(over, work, []string{"**/x"}, 1<<20)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the hints of a task that is over took %s", took)
	}
}

func TestPipesAndDevicesAreNotReadAsHintsOrAgents(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "ok"}))
	h.file(".claude/agents/good.md", "---\nname: good\n---\nBe good.")
	for _, name := range []string{"pipe", ".claude/agents/pipe.md"} {
		if err := syscall.Mkfifo(filepath.Join(h.config.Workdir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"linked": "pipe", "zero": "/dev/zero"} {
		if err := os.Symlink(to, filepath.Join(h.config.Workdir, name)); err != nil {
			t.Fatal(err)
		}
	}
	names, _, skipped := claude.GatherHints(t.Context(), h.config.Workdir, []string{"pipe", "linked", "zero", "*"}, 100)
	if len(names) > 0 || len(skipped) != 3 {
		t.Errorf("read %v, missed %v; want nothing read", names, skipped)
	}
	h.config.MCPConfig = []string{filepath.Join(h.config.Workdir, "pipe")}
	run, _ := h.run(task("hello"))
	if wantError(t, run, bloom.ClassInternal); !run.Completion.Retryable {
		t.Error("another worker may not try the task")
	}
	if err := h.runner().Usable(t.Context()); err == nil || !strings.Contains(err.Error(), "MCP configuration") {
		t.Errorf("the worker goes on claiming: %v", err)
	}
}
