package claude_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence())
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

func TestTheAgentsThatAWorkerReports(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence())
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

// A program that prints without an end is stopped, and not kept in memory.
func TestAProgramThatPrintsWithoutAnEndIsUnusable(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence())
	h.config.Path = filepath.Join(t.TempDir(), "claude")
	if err := os.WriteFile(h.config.Path, []byte("#!/bin/sh\nexec yes\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := claude.Check(t.Context(), h.config); err == nil || !strings.Contains(err.Error(), "printed more than") {
		t.Errorf("%v", err)
	}
}

// TestACancelledTaskDoesNotWaitForAHungProgram cancels a task while another one waits for
// what claude --help says, which it never does.
func TestACancelledTaskDoesNotWaitForAHungProgram(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence())
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	h.config.Path = filepath.Join(dir, "claude")
	if err := os.WriteFile(h.config.Path, []byte("#!/bin/sh\necho $$ >>'"+pids+"'\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := h.runner()
	ctx, cancel := context.WithCancelCause(t.Context())
	var first sync.WaitGroup
	first.Go(func() { r.Run(ctx, task("wait"), (&journal{}).emit) })
	defer first.Wait()
	defer cancel(attempt.ErrCancelled)
	var asked int
	for deadline := time.Now().Add(time.Minute); asked == 0; time.Sleep(5 * time.Millisecond) {
		if raw, err := os.ReadFile(pids); err == nil {
			asked, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
		}
		if time.Now().After(deadline) {
			t.Fatal("claude was not asked")
		}
	}
	other, stop := context.WithCancelCause(t.Context())
	stop(attempt.ErrCancelled)
	second := task("wait, too")
	second.ContextID = "another"
	run := r.Run(other, second, (&journal{}).emit)
	wantError(t, run, bloom.ClassCancelled)
	if err := syscall.Kill(asked, 0); err != nil {
		t.Errorf("the cancelled task waited until claude was given up: %v", err)
	}
}
