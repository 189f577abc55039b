package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// TestNothingOfATaskControlsTheTerminal whichever command shows it: not as text, not as JSON, not in an export.
func TestNothingOfATaskControlsTheTerminal(t *testing.T) {
	t.Parallel()
	// A window's title, colours with one-byte and two-byte introducers, a deletion, text from right to left.
	const hostile = "a\x1b]0;title\ab\x1b[8mc\u009b31md\x7fe\u202ef\rg"
	rt := runtimetest.Start(t)
	employ(t, rt, []bloom.WorkerEvent{event(1, "text", map[string]any{"text": hostile})}, succeeding(hostile))
	p := newPerson(t, rt)
	p.terminal = true
	p.must("task", "run", hostile)
	var artifacts []bloom.Artifact
	if err := json.Unmarshal([]byte(p.must("artifacts", "--json")), &artifacts); err != nil || len(artifacts) == 0 {
		t.Fatal(artifacts, err)
	}
	artifact, task := artifacts[0].ID, artifacts[0].TaskID
	for _, command := range []string{
		"artifacts content " + artifact, "artifacts get " + artifact, "artifacts list",
		"task get " + task, "task get --json " + task, "task list", "task list --json", "task logs " + task, "task logs --json " + task,
		"audit", "audit --json", "audit export", "audit export --format=csv", "contexts --json",
	} {
		out := p.must(append(strings.Fields(command), "--no-color")...)
		if at := strings.IndexFunc(out, controls); at >= 0 {
			t.Errorf("bloom %s: %q", command, out[max(0, at-20):min(len(out), at+20)])
		}
	}
	p.terminal = false
	if out := p.must("artifacts", "content", artifact); out != hostile {
		t.Errorf("a pipe got %q", out)
	}
}

func controls(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u202e'
}
