package e2e_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// obey makes the model run what follows "sh: " in a prompt.
func obey(r standin.Request) standin.Reply {
	_, command, ok := strings.Cut(r.LastUser(), "sh: ")
	if ok && !r.HasToolResult() {
		return standin.Tool("", "Bash", map[string]any{"command": command, "description": "work"})
	}
	return standin.Reply{Text: "noted"}
}

// printed returns what the task's commands printed.
func (o outcome) printed() string {
	var all []string
	for _, d := range o.of("tool_result") {
		text, _ := d["text"].(string)
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

// session returns the data of the task's session.
func (o outcome) session() map[string]any {
	o.t.Helper()
	all := o.of("session")
	if len(all) == 0 {
		o.t.Fatalf("the task has no session: %s", o.story())
	}
	return all[0]
}

// warmth are the modes in which every attack on another context is tried.
var warmth = map[string]string{"cold": "0", "warm": "4"}

// A worker without --workdir gives each context its own folder: what one of them deletes or leaves
// behind does not reach another.
func TestAContextDoesNotReachTheFilesOfAnother(t *testing.T) {
	t.Parallel()
	for mode, warm := range warmth {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.serve()
			h.anything(obey)
			h.work(workerOptions{name: "main", ownFolders: true, args: []string{"--warm", warm, "--allowed-tool", "Bash", "--max-concurrency", "1"}}).says("registered")
			run := func(context, command string) outcome {
				return h.await(t, h.submit(t, bloom.TaskSpec{ContextID: context, AgentSlug: "nobody", Prompt: "sh: " + command, Policy: bloom.Policy{TimeoutSec: 600}}).ID)
			}
			run("victim", "echo tangerine > notes.txt; pwd")
			if out := run("attacker", "ls; cat notes.txt; rm -f notes.txt; echo done").printed(); strings.Contains(out, "notes.txt\n") || strings.Contains(out, "tangerine") {
				t.Errorf("it sees another context's files: %s", out)
			}
			o := run("victim", "cat notes.txt")
			if !strings.Contains(o.printed(), "tangerine") {
				t.Errorf("the files are gone: %s", o.printed())
			}
			folder, _ := o.session()["workdir"].(string)
			if _, err := os.Stat(filepath.Join(folder, "notes.txt")); err != nil {
				t.Errorf("the session's event does not say where the files are: %q, %v", folder, err)
			}
		})
	}
}

// Claude keeps notes for a folder and shows them to every later session there. Here they are the
// words of another context.
func TestAContextDoesNotReadClaudesMemoryOfAnother(t *testing.T) {
	t.Parallel()
	for mode, warm := range warmth {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.serve()
			h.anything(standin.Sequence(standin.Reply{Text: "noted"}))
			workdir, err := filepath.EvalSymlinks(h.dir)
			if err != nil {
				t.Fatal(err)
			}
			project := regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(filepath.Join(workdir, "work-main"), "-")
			file(t, filepath.Join(h.configDir("main"), "projects", project, "memory", "MEMORY.md"), "- The word is tangerine.\n")
			file(t, filepath.Join(workdir, "work-main", ".claude", "settings.json"), `{"env":{"CLAUDE_CODE_DISABLE_AUTO_MEMORY":""}}`)
			h.work(workerOptions{name: "main", args: []string{"--warm", warm}}).says("registered")
			h.await(t, h.submit(t, bloom.TaskSpec{ContextID: "other", AgentSlug: "nobody", Prompt: "who am I?"}).ID).succeeded("noted")
			for _, r := range h.asked("who am I?") {
				if strings.Contains(r.Conversation()+r.SystemText(), "tangerine") {
					t.Errorf("the memory of an earlier context is in the conversation:\n%s", r.Conversation())
				}
			}
		})
	}
}

// Forgetting a context removes from its worker every file that has its words: transcripts of its
// session and of copies for parallel tasks, output of commands, its folder.
func TestAForgottenContextLeavesNothingOnItsWorker(t *testing.T) {
	t.Parallel()
	for mode, own := range map[string]bool{"own folder": true, "shared folder": false} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.serve()
			held := make(chan struct{})
			h.anything(func(r standin.Request) standin.Reply {
				if strings.Contains(r.LastUser(), "hold") {
					return standin.Reply{Text: "held", Until: held}
				}
				return obey(r)
			})
			temp := filepath.Join(h.dir, "temp")
			file(t, filepath.Join(temp, "exists"), "")
			h.work(workerOptions{
				name: "main", ownFolders: own, env: append(h.modelEnv("ANTHROPIC_API_KEY=dummy"), "TMPDIR="+temp),
				args: []string{"--warm", "2", "--allowed-tool", "Bash", "--max-concurrency", "2"},
			}).says("registered")
			post := func(prompt string) string {
				return h.submit(t, bloom.TaskSpec{ContextID: "gone", AgentSlug: "nobody", Prompt: "The word is tangerine. " + prompt, Policy: bloom.Policy{TimeoutSec: 600}}).ID
			}
			command := "sh: echo tangerine"
			if own {
				command += " | tee notes.txt"
			}
			o := h.await(t, post(command))
			if !strings.Contains(o.printed(), "tangerine") {
				t.Fatalf("the command did not run: %s", o.printed())
			}
			id, _ := o.session()["session_id"].(string)
			file(t, filepath.Join(h.configDir("main"), "file-history", id, "1"), "tangerine") // as claude keeps edited files
			first := post("hold")
			h.untilAsked("hold", 1)
			if o := h.await(t, post("meanwhile")); o.session()["forked"] != true {
				t.Fatalf("the parallel task has no copy of the session: %s", o.story())
			}
			close(held)
			h.await(t, first)
			if left := h.filesWith("main", temp, "tangerine"); len(left) < 3 {
				t.Fatalf("the context's files before it is forgotten are only %q", left)
			}
			if status, answer := h.raw(t, "DELETE", "/contexts/gone", ""); status != 204 && status != 200 {
				t.Fatalf("%d %s", status, answer)
			}
			eventually(t, "the worker has forgotten the context", func() bool { return len(h.filesWith("main", temp, "tangerine")) == 0 })
		})
	}
}

// filesWith returns a worker's files that contain the word.
func (h *harness) filesWith(worker, temp, word string) (found []string) {
	for _, dir := range []string{h.configDir(worker), filepath.Join(h.dir, "data-"+worker), h.workdir(worker), temp} {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(word)) {
					found = append(found, path)
				}
			}
			return nil
		})
	}
	slices.Sort(found)
	return found
}
