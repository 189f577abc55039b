package claude_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// inBackground has the model start work in the background and answer twice: at once, and when it
// is told that the work has ended.
func inBackground(tool string, input map[string]any) standin.Responder {
	return func(r standin.Request) standin.Reply {
		switch conversation := r.Conversation(); {
		case !strings.Contains(conversation, "start it"):
			return standin.Reply{Text: "the subagent's answer"}
		case strings.Contains(conversation, "task-notification"):
			return standin.Reply{Text: "the last answer"}
		case r.HasToolResult():
			return standin.Reply{Text: "I'll wait"}
		}
		return standin.Tool("", tool, input)
	}
}

func TestTheOutcomeIsTheAnswerAfterTheWorkInTheBackground(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tool  string
		input map[string]any
	}{
		"subagent": {"Agent", map[string]any{"description": "d", "prompt": "look", "subagent_type": "general-purpose", "run_in_background": true}},
		"command":  {"Bash", map[string]any{"command": "until [ -e now ]; do sleep 0.1; done", "description": "d", "run_in_background": true}},
	} {
		for mode, warm := range map[string]int{"cold": 0, "warm": 1} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				respond := inBackground(test.tool, test.input)
				var h *harness
				interim := false
				h = newWarmHarness(t, warm, func(r standin.Request) standin.Reply {
					reply := respond(r)
					switch reply.Text {
					case "I'll wait":
						interim = true
						h.file("now", "")
					case "the subagent's answer":
						for n, more := h.model.Arrived(); n < 3; n, more = h.model.Arrived() { // after the interim answer
							<-more
						}
					}
					return reply
				})
				h.config.AllowedTools = []string{"Bash"}
				run, j := h.run(task("start it"))
				wantSuccess(t, run, "the last answer")
				if n := len(h.model.Requests()); !interim || *run.Completion.Metrics.InputTokens != int64(10*n) || j.warned("background_work") {
					t.Errorf("run = %s after %d requests, want each to be counted and no warning", show(run), n)
				}
				if next, j := h.run(task("hello")); warm > 0 && kinds(j) != "living" {
					t.Errorf("the next process was %q, want the same one; %s", kinds(j), show(next))
				}
			})
		}
	}
}

func TestARunThatEndsBeforeItsSubagentIsIncomplete(t *testing.T) {
	t.Parallel()
	respond := inBackground("Agent", map[string]any{"description": "d", "prompt": "look", "subagent_type": "general-purpose", "run_in_background": true})
	h := newHarness(t, func(r standin.Request) standin.Reply {
		reply := respond(r)
		if reply.Text == "the subagent's answer" {
			reply.Until = make(chan struct{})
		}
		return reply
	})
	h.setEnv("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS", "100")
	h.config.PassEnv = []string{"CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"}
	run, _ := h.run(task("start it"))
	wantError(t, run, bloom.ClassIncomplete)
}

func TestAServerInTheBackgroundIsNotWaitedForAsLongAsOtherWork(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command, output string
		warning         bool
	}{
		"server":                  {"echo ready; sleep 600", "I'll wait", true},
		"server with other files": {`while touch "$CLAUDE_CODE_CHILD_NOTES_DIR/../tasks/other.output"; do sleep 0.3; done`, "I'll wait", true},
		"build":                   {"for n in $(seq 50); do echo $n; sleep 0.2; done", "the last answer", false},
	} {
		for mode, warm := range modes {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				h := newWarmHarness(t, warm, inBackground("Bash", map[string]any{"command": test.command, "description": "d", "run_in_background": true}))
				h.config.AllowedTools, h.config.Background = []string{"Bash"}, 5*time.Second
				begin := task("start it")
				begin.Policy.TimeoutSec = 60
				run, j := h.run(begin)
				wantSuccess(t, run, test.output)
				if j.warned("background_work") != test.warning || len(processesIn(t, h.config.Workdir)) > 0 && test.warning {
					t.Errorf("events %v", j.of(claude.EventWarning))
				}
				if run.Completion.Metrics.DurationMS > 50_000 {
					t.Errorf("run = %s, want it before its time limit", show(run))
				}
			})
		}
	}
}
