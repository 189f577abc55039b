package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestAContextIsForgotten(t *testing.T) {
	t.Parallel()
	a, harnesses := fleet(t, 1, 1, standin.Sequence(standin.Reply{Text: "noted"}))
	h := harnesses[0]
	h.turn(a, "my colour is green")
	if err := h.runner().Forget("ctx")(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := sessionFiles(t, h); len(left) > 0 {
		t.Errorf("left on the worker: %v", left)
	}
	if left := processesIn(t, h.config.Workdir); len(left) > 0 {
		t.Errorf("a process is left: %v", left)
	}
	delete(a.kept, "ctx")
	delete(a.said, "ctx")
	h.turn(a, "who am I?")
	if got := h.conversation(); strings.Contains(got, "green") {
		t.Errorf("it is remembered:\n%s", got)
	}
}

func sessionFiles(t *testing.T, h *harness) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(h.home, ".claude", "projects"), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".jsonl") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A task can print to claude's output: what it names there must not be removed with its context.
func TestAForgedSessionIDRemovesNothing(t *testing.T) {
	t.Parallel()
	h := newNewcomerHarness(t, 0, ",Outlive,", "")
	script, err := os.ReadFile(h.config.Path)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.ReplaceAll(string(script), fakeSession, "-")
	if err := os.WriteFile(h.config.Path, []byte(forged), 0o755); err != nil {
		t.Fatal(err)
	}
	another := filepath.Join(h.home, ".claude", "projects", "-srv-work", "conversation.jsonl")
	if err := os.MkdirAll(filepath.Dir(another), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(another, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantSuccess(t, first(h.run(task("one"))), "ok")
	if err := h.runner().Forget("ctx")(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(another); err != nil {
		t.Errorf("another context's conversation is gone: %v", err)
	}
}
