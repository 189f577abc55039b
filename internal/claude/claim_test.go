package claude_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestTheSpareProcessTakesTheFolderOfItsContext(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 2, func(r standin.Request) standin.Reply {
		if r.HasToolResult() || strings.Contains(r.LastUser(), "again") {
			return standin.Reply{Text: "ok"}
		}
		return standin.Tool("", "Bash", map[string]any{"command": "pwd", "description": "work"})
	})
	h.config.WorkdirPerContext, h.config.AllowedTools = true, []string{"Bash"}
	claude.PrepareFor(h.runner(), "nobody")
	eventually(t, "a spare process waits", func() bool { return len(processesIn(t, filepath.Join(h.config.Workdir, "spare"))) > 1 })
	run, j := h.run(task("where?"))
	wantSuccess(t, run, "ok")
	folder, _ := j.of(claude.EventSession)[0]["workdir"].(string)
	if got := kinds(j); got != "spare" {
		t.Errorf("the process was %q, want the spare one", got)
	}
	if got := j.of(claude.EventToolResult)[0]["text"]; got != folder || filepath.Dir(folder) != h.config.Workdir {
		t.Errorf("claude works in %q, and the task says %q", got, folder)
	}
	run, j = h.run(task("again"))
	wantSuccess(t, run, "ok")
	if got := kinds(j); got != "living" {
		t.Errorf("the process was %q, want the one that was spare", got)
	}
}

func TestAClaudeThatCannotWaitForAFolderIsStartedForEachContext(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 4, standin.Sequence(standin.Reply{Text: "ok"}))
	h.config.WorkdirPerContext = true
	starts := filepath.Join(t.TempDir(), "starts")
	h.config.Path = filepath.Join(t.TempDir(), "claude")
	writeFile(t, h.config.Path, fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *--await-claim*) echo >>%s; echo \"error: unknown option '--await-claim'\" >&2; exit 1;; esac\nexec %s \"$@\"\n", starts, h.real))
	if err := os.Chmod(h.config.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		run, j := h.run(in(fmt.Sprint("ctx", i), "hello"))
		wantSuccess(t, run, "ok")
		if got := kinds(j); got != "new" {
			t.Errorf("the process was %q, want a new one", got)
		}
	}
	if raw, _ := os.ReadFile(starts); len(raw) != 1 {
		t.Errorf("a spare process was tried %d times, want once", len(raw))
	}
}
