package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom/internal/standin"
)

// The command line reads "@path" before any permission is asked: a task's
// author must not reach the worker's files that way.
func TestMentionsDoNotReachFilesOutsideTheWorkdir(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "ok"}))
	secret := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(secret, []byte("canary-content"), 0o600); err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(h.config.Workdir, secret)
	if err != nil {
		t.Fatal(err)
	}
	h.file("hint.txt", "@"+secret+"\n")
	var prompt strings.Builder
	for _, path := range []string{secret, up, `"` + secret + `"`, "'" + secret + "'", "./" + up, "x/../" + up, "~/../.." + secret, "file://" + secret} {
		prompt.WriteString("@" + path + "\n")
		for before := rune('!'); before < 0x7f; before++ {
			prompt.WriteString(string(before) + "@" + path + "\n")
		}
		for _, before := range []string{"\t", "\u00a0", "\u3000", "！", "é", "🙂", "\u2028", "\u200b", "@！", "@.！", "\x1b"} {
			prompt.WriteString(before + "@" + path + "\n")
		}
	}
	hinted := task(prompt.String())
	hinted.ContextHints = []string{"hint.txt"}
	run, _ := h.run(hinted)
	wantSuccess(t, run, "ok")
	if asked := h.model.Requests()[0].Conversation(); strings.Contains(asked, "canary-content") {
		t.Error("the model was given a file from outside the working folder")
	}
}

// A link in the working folder is judged by where it leads, whatever follows its
// name; what is no file or folder is not opened at all.
func TestMentionsOfLinksAndPipesDoNotReachOutside(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "ok"}))
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("canary-content"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.file("inside.txt", "welcome-content")
	for name, to := range map[string]string{
		"link": filepath.Join(outside, "secret.txt"), "dir": outside, "chain": "link", "good": "inside.txt", "gone": filepath.Join(outside, "later"),
	} {
		if err := os.Symlink(to, filepath.Join(h.config.Workdir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(h.config.Workdir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	prompt := "read @good and @inside.txt\n"
	for _, after := range []string{"", ",", ".", ":", ")", "]", "#L1-2", "#frag", "!", "'s", "?", "\u00a0x", "、", "/", "*"} {
		for _, name := range []string{"link", "chain", "./link", "dir/secret.txt", "dir", "gone", "pipe"} {
			prompt += "@" + name + after + "\n"
		}
	}
	asked := task(prompt)
	asked.Policy.TimeoutSec = 120
	run, _ := h.run(asked)
	wantSuccess(t, run, "ok")
	conversation := h.model.Requests()[0].Conversation()
	if strings.Contains(conversation, "canary-content") {
		t.Errorf("the model was given what lies outside the working folder:\n%s", conversation)
	}
	if !strings.Contains(conversation, "welcome-content") {
		t.Error("a file inside the working folder was not read")
	}
}

func TestOrdinaryAtSignsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "ok"}))
	prompt := "mail a@b.example, @decorator, import x from \"@/components/x\""
	run, _ := h.run(task(prompt))
	wantSuccess(t, run, "ok")
	if asked := h.model.Requests()[0].LastUser(); !strings.Contains(asked, prompt) {
		t.Errorf("the model was asked %q", asked)
	}
}
