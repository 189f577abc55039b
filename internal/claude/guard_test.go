package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/standin"
)

// The command line reads "@path" before any permission is asked: a task's
// author must not reach the worker's files that way.
func TestMentionsDoNotReachFilesOutsideTheWorkdir(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "ok"}))
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

func TestOrdinaryAtSignsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standin.Sequence(standin.Reply{Text: "ok"}))
	prompt := "mail a@b.example, @decorator, import x from \"@/components/x\""
	run, _ := h.run(task(prompt))
	wantSuccess(t, run, "ok")
	if asked := h.model.Requests()[0].LastUser(); !strings.Contains(asked, prompt) {
		t.Errorf("the model was asked %q", asked)
	}
}
