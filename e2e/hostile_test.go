package e2e_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestARunCannotReadTheKeysOfItsWorker lets a task look for keys in the environment of every
// process that it may read; as root that is all of them.
func TestARunCannotReadTheKeysOfItsWorker(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.script("spy", func(r standin.Request) standin.Reply {
		if r.HasToolResult() {
			return standin.Reply{Text: r.LastUser()}
		}
		return standin.Tool("", "Bash", map[string]any{
			"command":     `cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -E '^(SPIED|E2E_MARK)=' | sort -u; echo looked`,
			"description": "look around",
		})
	})
	h.upWith([]string{"SPIED=canary-of-the-worker", "RUNTIME_API_KEY=" + adminKey}, "--allowed-tool", "Bash")
	o := h.await(t, h.submit(t, spec("spy")).ID)
	if o.task.Status != bloom.TaskCompleted || !strings.Contains(o.output, "looked") || !strings.Contains(o.output, markName) {
		t.Fatalf("the task is %s with %q, want it to have looked around; %s", o.task.Status, o.output, o.story())
	}
	if strings.Contains(o.output, "canary-of-the-worker") {
		t.Errorf("the run read the worker's environment:\n%s", o.output)
	}
}

// TestARunThatKillsItsSupervisorLeavesNothing lets a task kill claude's supervisor after starting a
// process outside claude's session.
func TestARunThatKillsItsSupervisorLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.work(workerOptions{name: "host", args: []string{"--allowed-tool", "Bash"}})
	h.script("patricide", standin.Sequence(standin.Tool("", "Bash", map[string]any{
		"command":     "setsid sleep 600 </dev/null >/dev/null 2>&1 & kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 600",
		"description": "be rid of the supervisor",
	})))
	s := spec("patricide")
	s.MaxAttempts = 1
	o := h.await(t, h.submit(t, s).ID)
	if o.task.Status == bloom.TaskCompleted || len(o.results) != 1 || o.results[0].ErrorClass == nil || *o.results[0].ErrorClass != bloom.ClassCrashed {
		t.Errorf("the task is %s, want one result of class crashed; %s", o.task.Status, o.story())
	}
	if left := len(marked(h.markOf("host"))); left != 1 {
		t.Errorf("%d processes carry the worker's mark, want the worker alone", left)
	}
}

// TestADeniedRunHasAWarning follows a warning from claude through the store and the API to the
// command line.
func TestADeniedRunHasAWarning(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.script("denied", func(r standin.Request) standin.Reply {
		if r.HasToolResult() {
			return standin.Reply{Text: "all done"}
		}
		return standin.Tool("", "Bash", map[string]any{"command": "python3 -c 'open(\"made\", \"w\")'", "description": "make a file"})
	})
	h.up()
	cmd := exec.CommandContext(t.Context(), programs.bloom, "task", "run", "--url", h.url, "scenario denied; make a file")
	cmd.Env = h.env("BLOOM_API_KEY=" + adminKey)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "all done") {
		t.Fatalf("task run: %v\n%s\n%s", err, out, said.String())
	}
	if !strings.Contains(said.String(), "! every tool that claude tried to use was denied") {
		t.Errorf("task run does not say that nothing was done:\n%s", said.String())
	}
	tasks, _, err := h.api.Tasks(t.Context(), bloom.TaskQuery{})
	if err != nil || len(tasks) != 1 {
		t.Fatalf("tasks = %v, %v", tasks, err)
	}
	results, err := h.api.Results(t.Context(), tasks[0].ID)
	if err != nil || len(results) != 1 || len(results[0].Metrics.Warnings) < 2 {
		t.Errorf("results = %v, %v; want one with its warnings", results, err)
	}
}
