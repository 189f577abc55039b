package claude_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestBackgroundWorkIsNotLeftToALaterTask(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]map[string]any{
		"of the tool":  {"command": "sleep 600", "description": "wait", "run_in_background": true},
		"of the shell": {"command": "setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $! > started.pid", "description": "wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newWarmHarness(t, 1, func(r standin.Request) standin.Reply {
				if r.HasToolResult() || !strings.Contains(r.LastUser(), "start it") {
					return standin.Reply{Text: "done"}
				}
				return standin.Tool("", "Bash", input)
			})
			h.config.AllowedTools = []string{"Bash"}
			h.config.Silence = 10 * time.Second // how long a command in the background is waited for
			wantSuccess(t, first(h.run(task("hello"))), "done")
			run, _ := h.run(task("start it"))
			wantSuccess(t, run, "done")
			if !warned(run, "left_behind") && !warned(run, "background_work") {
				t.Errorf("run = %s, want a warning of the work that ended", show(run))
			}
			if left := processesIn(t, h.config.Workdir); len(left) > 0 {
				t.Errorf("processes are left to the next task: %v", left)
			}
			next, j := h.run(task("and now?"))
			if t.Failed() || next.Completion.Output == nil || *next.Completion.Output != "done" {
				t.Logf("events: %v", j.events)
			}
			wantSuccess(t, next, "done")
			if got := kinds(j); strings.Contains(got, "living") {
				t.Errorf("the next task's process was %q, want another one", got)
			}
		})
	}
}

func TestAWarmProcessThatDiedIsReplaced(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 1, standin.Sequence(standin.Reply{Text: "ok"}))
	wantSuccess(t, first(h.run(task("one"))), "ok")
	killClaudes(t, h.config.Workdir)
	run, j := h.run(task("two"))
	wantSuccess(t, run, "ok")
	if got := kinds(j); got != "new" && got != "cold" {
		t.Errorf("the process was %q, want a new one", got)
	}
}

func TestACancelledTurnLeavesTheSessionUsable(t *testing.T) {
	t.Parallel()
	h := newWarmHarness(t, 1, func(r standin.Request) standin.Reply {
		if strings.Contains(r.LastUser(), "hang") {
			return standin.Reply{Until: make(chan struct{}), HangAfterStart: true}
		}
		return standin.Reply{Text: "ok"}
	})
	wantSuccess(t, first(h.run(task("remember the number 7"))), "ok")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for n, more := h.model.Arrived(); n < 2; n, more = h.model.Arrived() {
			<-more
		}
		cancel(attempt.ErrCancelled)
	}()
	began := time.Now()
	run := h.runner().Run(ctx, task("hang"), nil)
	wantError(t, run, bloom.ClassCancelled)
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("the cancellation took %s", took)
	}
	if left := processesIn(t, h.config.Workdir); len(left) > 0 {
		t.Errorf("processes are left of the cancelled run: %v", left)
	}
	wantSuccess(t, first(h.run(task("which number?"))), "ok")
	requests := h.model.Requests()
	if got := requests[len(requests)-1].Conversation(); !strings.Contains(got, "the number 7") {
		t.Errorf("the conversation is lost:\n%s", got)
	}
}

// fickle is a claude that serves turns and then misbehaves as scripted; started with --resume it
// works correctly.
const fickle = `#!/bin/sh
[ "$1" = --help ] && exit 0
init() { echo '{"type":"system","subtype":"init","session_id":"'$1'","apiKeySource":"none"}'; }
say() { echo '{"type":"assistant","message":{"id":"'$1'","model":"m","content":[{"type":"text","text":"'$1'"}],"usage":{"input_tokens":1,"output_tokens":1}}}'; }
result() { echo '{"type":"result","subtype":"success","is_error":false,"result":"'$1'","session_id":"11111111-1111-4111-8111-111111111111","num_turns":1,"terminal_reason":"completed"}'; }
turn() { init 11111111-1111-4111-8111-111111111111; say $1; result $1; }
did() { echo done >did; }
case "$*" in *--resume*) read -r prompt; turn fresh; cat >/dev/null; exit;; esac
read -r prompt; turn first
%s
cat >/dev/null
`

// newFickleHarness has one warm process, of a claude that runs the script after its first turn.
func newFickleHarness(t *testing.T, script string) *harness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claude")
	if err := os.WriteFile(path, []byte(fmt.Sprintf(fickle, script)), 0o755); err != nil {
		t.Fatal(err)
	}
	h := newWarmHarness(t, 1, standin.Sequence())
	h.config.Path = path
	return h
}

func TestAWarmProcessThatMisbehavesIsReplaced(t *testing.T) {
	t.Parallel()
	// What it does after its result it may also do at the next turn, because it is frozen in between.
	for name, test := range map[string]struct{ script, output string }{
		"prints after its result":     {"say late; read -r prompt; turn second", "fresh"},
		"changes its session":         {"read -r prompt; init 22222222-2222-4222-8222-222222222222; sleep 600", "fresh"},
		"answers an older turn":       {"read -r prompt; result old; sleep 600", "fresh"},
		"answers nothing":             {"read -r prompt; init 11111111-1111-4111-8111-111111111111; result nothing; sleep 600", "fresh"},
		"dies at the next turn":       {"read -r prompt; exit 3", "fresh"},
		"dies between turns":          {"exit 0", "fresh"},
		"behaves":                     {"read -r prompt; turn second", "second"},
		"does not read the next turn": {"exec <&-; sleep 0.2", "fresh"},
		"prints after its own result": {"read -r prompt; turn second; say late", "second"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFickleHarness(t, test.script)
			wantSuccess(t, first(h.run(task("one"))), "first")
			run, j := h.run(task("two"))
			wantSuccess(t, run, test.output)
			if test.output == "fresh" && !strings.Contains(kinds(j), "new") && !strings.Contains(kinds(j), "cold") {
				t.Errorf("processes %q, want a new one", kinds(j))
			}
			h.runner().Close()
			if left := processesIn(t, h.config.Workdir); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

func TestATurnIsNotRepeatedWhenAWarmProcessDiesDuringItsAnswer(t *testing.T) {
	t.Parallel()
	h := newFickleHarness(t, "read -r prompt; init 11111111-1111-4111-8111-111111111111; say half; exit 1")
	wantSuccess(t, first(h.run(task("one"))), "first")
	run, _ := h.run(task("two"))
	wantError(t, run, bloom.ClassCrashed)
}
