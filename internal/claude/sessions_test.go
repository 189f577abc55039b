package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestResumeCarriesTheFirstTasksMessages(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "noted"}, standin.Reply{Text: "green"}))
	wantSuccess(t, first(h.run(task("my colour is green"))), "noted")
	run, j := h.run(task("what is my colour?"))
	wantSuccess(t, run, "green")
	requests := h.model.Requests()
	if got := requests[len(requests)-1].Conversation(); !strings.Contains(got, "my colour is green") || !strings.Contains(got, "noted") {
		t.Errorf("the second request lacks the first's messages:\n%s", got)
	}
	if sessions := j.of(claude.EventSession); len(sessions) != 1 || sessions[0]["resumed"] != true {
		t.Errorf("session events = %v", sessions)
	}
}

func TestAResumedTaskIsChargedForItselfOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "ok", Usage: standin.Usage{Input: 1000, Output: 100}}))
	one, two := first(h.run(task("one"))).Completion.Metrics, first(h.run(task("two"))).Completion.Metrics
	if *one.TokensUsed != 1100 || *two.TokensUsed != 1100 || *one.CostUSD != *two.CostUSD {
		t.Errorf("first %d tokens, %g dollars; second %d tokens, %g dollars; want the same",
			*one.TokensUsed, *one.CostUSD, *two.TokensUsed, *two.CostUSD)
	}
}

func TestALostSessionIsReplacedAndReported(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "ok"}))
	wantSuccess(t, first(h.run(task("one"))), "ok")
	h.runner().Close() // a process that is kept alive needs no files
	if err := os.RemoveAll(filepath.Join(h.home, ".claude", "projects")); err != nil {
		t.Fatal(err)
	}
	run, j := h.run(task("two"))
	wantSuccess(t, run, "ok")
	if !j.warned("session_gone") {
		t.Error("nothing says that the session was gone")
	}
}

// A hook or an MCP server may print the same words.
func TestASuccessIsNotRepeatedForWhatIsOnStderr(t *testing.T) {
	t.Parallel()
	h := newNewcomerHarness(t, warmIn(t), ",Outlive,", "echo >&2 'No conversation found with session ID: x'")
	for range 2 {
		run, j := h.run(task("hello"))
		wantSuccess(t, run, "ok")
		if j.warned("session_gone") {
			t.Error("the turn was repeated")
		}
	}
}

func TestTwoTasksOfOneContextForkTheSession(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	h := newHarness(t, func(r standin.Request) standin.Reply {
		if strings.Contains(r.LastUser(), "slow") {
			return standin.Reply{Text: "slow done", Until: release}
		}
		return standin.Reply{Text: "quick done"}
	})
	runner := h.runner()
	wantSuccess(t, runner.Run(t.Context(), task("begin"), nil), "quick done")
	slow := &journal{}
	running := slow.on(claude.EventSession)
	ended := make(chan attempt.Run)
	go func() { ended <- runner.Run(t.Context(), task("slow"), slow.emit) }()
	<-running
	quick := &journal{}
	wantSuccess(t, runner.Run(t.Context(), task("meanwhile"), quick.emit), "quick done")
	close(release)
	wantSuccess(t, <-ended, "slow done")
	if !quick.warned("session_forked") {
		t.Error("nothing says that the session was forked")
	}
	a, b := slow.of(claude.EventSession)[0], quick.of(claude.EventSession)[0]
	if a["session_id"] == b["session_id"] || b["forked"] != true {
		t.Errorf("sessions = %v and %v, want a fork", a, b)
	}
}
