package e2e_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/porttest"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestUpAloneRunsATask starts everything with one command, and uses the two commands that it
// prints, unchanged.
func TestUpAloneRunsATask(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.anything(standin.Sequence(standin.Reply{Text: "hello from one command"}))
	up := h.up()
	run, curl := "", ""
	for line := range strings.Lines(up.out.String()) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, " task run") {
			run = line
		}
		if strings.HasPrefix(line, "curl ") {
			curl = line
		}
	}
	if run == "" || curl == "" {
		t.Fatalf("no lines to use in:\n%s", up.out)
	}
	if out := h.shell(t, run); !strings.Contains(out, "hello from one command") {
		t.Errorf("%s\nsaid: %s", run, out)
	}
	var task bloom.Task
	if err := json.Unmarshal([]byte(h.shell(t, curl)), &task); err != nil || task.Status != bloom.TaskQueued {
		t.Fatalf("%s\nmade %+v, %v", curl, task, err)
	}
	h.await(t, task.ID).succeeded("hello from one command")
}

// up starts or restarts everything in one process, on the same folder.
func (h *harness) up(args ...string) *proc {
	h.t.Helper()
	return h.upWith(nil, args...)
}

// upWith is up with additional environment variables.
func (h *harness) upWith(extra []string, args ...string) *proc {
	h.t.Helper()
	env := append(h.env(append(h.modelEnv("ANTHROPIC_API_KEY=dummy"), "CLAUDE_CONFIG_DIR="+h.configDir("up"))...), extra...)
	p := spawn(h.t, "up", env, append([]string{
		"up", "--data-dir", filepath.Join(h.dir, "up"), "--listen", h.reserve(), "--membridge-listen", porttest.Address(h.t),
		"--name", "only", "--claude", claudeBinary(h.t), "--pass-env", markName,
	}, args...)...)
	h.servers = append(h.servers, p)
	p.says("Ctrl-C stops everything")
	return p
}
