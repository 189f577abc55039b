package claude_test

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
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
