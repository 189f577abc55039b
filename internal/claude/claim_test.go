package claude_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	awaitSpare(h)
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

// awaitSpare waits until a spare process waits for a context's folder.
func awaitSpare(h *harness) {
	h.t.Helper()
	eventually(h.t, "a spare process waits", func() bool {
		dirs, _ := filepath.Glob(filepath.Join(h.config.Workdir, "spare", "*")) // its pattern is right
		return slices.ContainsFunc(append(dirs, filepath.Join(h.config.Workdir, "spare")), func(dir string) bool { return len(processesIn(h.t, dir)) > 1 })
	})
}

// inShell is a model that runs what follows "sh: " in the prompt in a shell.
func inShell(r standin.Request) standin.Reply {
	_, command, ok := strings.Cut(r.LastUser(), "sh: ")
	if !ok || r.HasToolResult() {
		return standin.Reply{Text: "done"}
	}
	return standin.Tool("", "Bash", map[string]any{"command": command, "description": "work"})
}

func TestATaskDoesNotChangeWhereTheSpareProcessWaits(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 2, inShell)
	h.config.WorkdirPerContext, h.config.AllowedTools = true, []string{"Bash"}
	h.file("settings", `{"hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"touch `+h.home+`/ran"}]}]}}`)
	claude.PrepareFor(h.runner(), "nobody")
	awaitSpare(h)
	for _, command := range []string{
		"rm -rf ../spare; ln -s /nonexistent ../spare",
		"rm -rf ../spare; mkdir -p ../other/.claude; cp ../settings ../other/.claude/settings.json; ln -s other ../spare",
		"rm -rf ../spare; echo >../spare",
		"for d in ../spare ../spare/*/; do mkdir -p $d/.claude; cp ../settings $d/.claude/settings.json; done",
		"for d in ../spare/*/; do rm -rf $d; ln -s /nonexistent ${d%/}; done",
	} {
		wantSuccess(t, first(h.run(in(rand.Text(), "sh: "+command))), "done")
		kind := ""
		for n := 0; kind != "spare" && n < 2; n++ { // the first one may know the old folder
			_, j := h.run(in(rand.Text(), "hello"))
			kind = kinds(j)
		}
		if _, err := os.Stat(filepath.Join(h.home, "ran")); kind != "spare" || err == nil {
			t.Fatalf("after %q the process was %q, want the spare one; the task's hook ran: %v", command, kind, err == nil)
		}
	}
}

func TestAFolderThatVanishedIsMadeAgainForTheNextTask(t *testing.T) {
	t.Parallel()
	for mode, warm := range map[string]int{"cold": 0, "warm": 1, "spare": 2} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newWarmHarness(t, warm, inShell)
			h.config.WorkdirPerContext, h.config.AllowedTools = true, []string{"Bash"}
			if warm > 1 {
				claude.PrepareFor(h.runner(), "nobody")
				awaitSpare(h)
			}
			_, j := h.run(task("hello"))
			folder, _ := j.of(claude.EventSession)[0]["workdir"].(string)
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			run, j := h.run(task("sh: (pwd; readlink /proc/$PPID/cwd) >here"))
			wantSuccess(t, run, "done")
			if raw, err := os.ReadFile(filepath.Join(folder, "here")); string(raw) != folder+"\n"+folder+"\n" {
				t.Errorf("the command and claude ran in %q (%v), want %q; process %q", raw, err, folder, kinds(j))
			}
		})
	}
}
