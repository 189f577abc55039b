package claude_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestAContextMovesFromWorkerToWorker(t *testing.T) {
	t.Parallel()
	for mode, warm := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			a, harnesses := fleet(t, 3, warm, standin.Sequence(standin.Reply{Text: "noted"}))
			turns := []string{"first: my colour is green", "second: my number is 7", "third", "fourth", "fifth", "sixth"}
			for i, prompt := range turns {
				// Twice here, then twice on the next worker.
				run, j := harnesses[i/2%3].turn(a, prompt)
				wantSuccess(t, run, "noted")
				if run.Completion.Transcript == nil {
					t.Fatalf("turn %d gave the server no transcript: %v", i, j.of(claude.EventWarning))
				}
				got := harnesses[0].conversation()
				for _, earlier := range turns[:i+1] {
					if n := strings.Count(got, earlier); n != 1 {
						t.Errorf("%q is %d times in the conversation of turn %d", earlier, n, i)
					}
				}
				if restored := len(j.of(claude.EventRestored)); restored != 1 && i%2 == 0 && i > 0 || restored != 0 && i%2 == 1 {
					t.Errorf("turn %d restored %d times", i, restored)
				}
			}
			if whole := run0(harnesses[0], a).Completion.Transcript.After; whole == "" {
				t.Error("a later turn sent the whole transcript again")
			}
		})
	}
}

func run0(h *harness, a *archive) attempt.Run {
	run, _ := h.turn(a, "once more")
	return run
}

func TestATurnThatWasNotCompletedIsRemoved(t *testing.T) {
	t.Parallel()
	for mode, warm := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			a, harnesses := fleet(t, 1, warm, standin.Sequence(standin.Reply{Text: "noted"}))
			h := harnesses[0]
			h.turn(a, "my colour is green")
			for _, killed := range []bool{false, true} {
				h.run(task("the lost turn")) // its completion never comes
				if killed {
					h.runner().Close()
					h.made = nil
				}
				run, j := h.turn(a, "the next turn")
				wantSuccess(t, run, "noted")
				got := h.conversation()
				if strings.Contains(got, "the lost turn") || !strings.Contains(got, "my colour is green") {
					t.Errorf("killed %v: the conversation (%v):\n%s", killed, j.of(claude.EventWarning), got)
				}
			}
		})
	}
}

func TestWhatTheServerCouldNotBeGivenIsNotLost(t *testing.T) {
	t.Parallel()
	a, harnesses := fleet(t, 2, 0, standin.Sequence(standin.Reply{Text: "noted"}))
	harnesses[0].turn(a, "one green")
	a.away = true
	run, j := harnesses[0].turn(a, "two blue")
	wantSuccess(t, run, "noted")
	if run.Completion.Transcript != nil || !j.warned("transcript_not_kept") {
		t.Errorf("events %v", j.of(claude.EventWarning))
	}
	a.away, a.onlyOn = false, "w0"
	if _, j = harnesses[1].run(task("not completed")); !j.warned("transcript_behind") {
		t.Errorf("another worker's events %v", j.of(claude.EventWarning))
	}
	if _, j = harnesses[0].turn(a, "three red"); j.warned("transcript_behind") {
		t.Errorf("its own worker's events %v", j.of(claude.EventWarning))
	}
	a.onlyOn = ""
	harnesses[1].turn(a, "four")
	got := harnesses[0].conversation()
	for _, word := range []string{"one green", "two blue", "three red"} {
		if !strings.Contains(got, word) {
			t.Errorf("%q is lost:\n%s", word, got)
		}
	}
}

func TestAnOutageCostsTimeAndNotTheConversation(t *testing.T) {
	t.Parallel()
	a, harnesses := fleet(t, 2, 0, standin.Sequence(standin.Reply{Text: "noted"}))
	harnesses[0].turn(a, "my colour is green")
	was := a.kept["ctx"]
	a.refuse = -1
	short := task("what is my colour?")
	short.Policy.TimeoutSec = 1
	run, j := harnesses[1].run(short)
	if wantError(t, run, bloom.ClassTimeout); run.Completion.Transcript != nil || len(j.of(claude.EventWarning)) > 0 {
		t.Errorf("events %v, %s", j.of(claude.EventWarning), show(run))
	}
	a.refuse, a.cut = 3, 4
	run, j = harnesses[1].turn(a, "what is my colour?")
	wantSuccess(t, run, "noted")
	if u := run.Completion.Transcript; u == nil || u.After != was.SHA256 || len(j.of(claude.EventRestored)) != 1 || len(j.of(claude.EventWarning)) > 0 {
		t.Errorf("events %v, the transcript goes on with %+v", j.of(claude.EventWarning), u)
	}
	if got := harnesses[1].conversation(); !strings.Contains(got, "my colour is green") || strings.Contains(got, "earlier_message") {
		t.Errorf("the conversation:\n%s", got)
	}
}

func TestATranscriptThatCannotBeUsedIsReplacedByASummary(t *testing.T) {
	t.Parallel()
	before, harnesses := fleet(t, 1, 0, standin.Sequence(standin.Reply{Text: "noted"}))
	harnesses[0].turn(before, "my colour is green")
	setFault := func(a *archive, with []byte) {
		for url := range a.frames {
			a.frames[url] = with
		}
	}
	for name, c := range map[string]struct {
		harm func(a *archive)
		code string
	}{
		"damaged":   {func(a *archive) { setFault(a, []byte("no zstd")) }, "transcript_damaged"},
		"truncated": {func(a *archive) { k := a.kept["ctx"]; k.Size++; a.kept["ctx"] = k }, "transcript_damaged"},
		"gone":      {func(a *archive) { clear(a.frames) }, "transcript_damaged"},
		"missing":   {func(a *archive) { clear(a.kept) }, "transcript_missing"},
		"of a newer version": {func(a *archive) {
			a.rewrite(`{"type":"turn/v9","v":9,"say":[{"who":"user","text":"hello"}]}` + "\n")
		}, "session_gone"},
		"not what claude writes": {func(a *archive) { a.rewrite("\x00\x01 no lines of JSON\n\xff") }, "session_gone"},
		"strange": {func(a *archive) {
			k := a.kept["ctx"]
			k.SessionID = "../../etc/passwd"
			a.kept["ctx"] = k
		}, "transcript_damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, harnesses := fleet(t, 1, 0, standin.Sequence(standin.Reply{Text: "noted"}))
			a := before.copied()
			harnesses[0].config.Transcripts = a
			c.harm(a)
			harnesses[0].beginsAnew(a, c.code)
		})
	}
}

// beginsAnew takes a turn and wants a new session with a summary, and an event that says
// why.
func (h *harness) beginsAnew(a *archive, code string) {
	h.t.Helper()
	run, j := h.turn(a, "what is my colour?")
	wantSuccess(h.t, run, "noted")
	got := h.conversation()
	if !j.warned(code) || strings.Count(got, "my colour is green") != 1 || !strings.Contains(got, "earlier_message") {
		h.t.Errorf("events %v, conversation:\n%s", j.of(claude.EventWarning), got)
	}
	if u := run.Completion.Transcript; u == nil || u.After != "" {
		h.t.Errorf("the new session's transcript is not kept whole: %+v", u)
	}
}

// The summary has earlier prompts and answers, in which claude would see mentions of files.
func TestASummaryOfEarlierTasksReadsNoFile(t *testing.T) {
	t.Parallel()
	a, harnesses := fleet(t, 1, 0, standin.Sequence(standin.Reply{Text: "noted"}))
	secret := filepath.Join(t.TempDir(), "secret.txt")
	writeFile(t, secret, "canary-content")
	a.said["ctx"] = []bloom.Exchange{{Prompt: "read @" + secret, Output: "it is @" + secret}}
	run, j := harnesses[0].turn(a, "and now?")
	wantSuccess(t, run, "noted")
	if got := harnesses[0].conversation(); !j.warned("transcript_missing") || strings.Count(got, secret) != 2 || strings.Contains(got, "canary-content") {
		t.Errorf("events %v, conversation:\n%s", j.of(claude.EventWarning), got)
	}
}

// What the provider refuses to go on with is not paid for twice, and not part of the conversation of
// other tasks.
func TestARefusedRunIsContinued(t *testing.T) {
	t.Parallel()
	for mode, warm := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var limited atomic.Bool
			a, harnesses := fleet(t, 1, warm, func(r standin.Request) standin.Reply {
				said := r.Conversation()
				switch again := strings.Count(said, "This task was interrupted"); {
				case !strings.Contains(said, "the long work") || !limited.Load():
					return standin.Reply{Text: "noted"}
				case strings.Count(said, "canary-done") > again:
					return standin.Error(429, "rate_limit_error", "slow down")
				}
				return standin.Tool("", "Bash", map[string]any{"command": "printf 'canary-%s' done", "description": "work"})
			})
			h := harnesses[0]
			h.config.AllowedTools, h.config.MaxRetries = []string{"Bash"}, 1
			h.turn(a, "my colour is green")
			long := task("the long work")
			refuseTwice := func() {
				limited.Store(true)
				defer limited.Store(false)
				for range 2 {
					if run, _ := h.run(long); run.Release == nil {
						t.Fatalf("run = %s, want a release", show(run))
					}
				}
			}
			refuseTwice()
			h.turn(a, "another task")
			if got := h.conversation(); strings.Contains(got, "the long work") || !strings.Contains(got, "my colour is green") {
				t.Errorf("the conversation of another task:\n%s", got)
			}
			refuseTwice()
			run, _ := h.run(long)
			wantSuccess(t, run, "noted")
			if got := h.conversation(); strings.Count(got, "canary-done") != 2 || !strings.Contains(got, "another task") || run.Completion.Transcript == nil {
				t.Errorf("the work is not continued:\n%s", got)
			}
		})
	}
}

// A task can reach what claude keeps of its session.
func TestATranscriptThatIsNoFileDelaysNobody(t *testing.T) {
	t.Parallel()
	const setFault = `for f in "$HOME"/.claude/projects/*/*.jsonl; do ln -sf /dev/zero "$f"; done`
	noted := standin.Reply{Text: "noted"}
	a, harnesses := fleet(t, 1, 0, standin.Sequence(noted, noted, standin.Tool("", "Bash", map[string]any{"command": setFault}), noted))
	h := harnesses[0]
	h.config.AllowedTools = []string{"Bash"}
	h.turn(a, "my colour is green")
	files, err := filepath.Glob(filepath.Join(h.home, ".claude/projects/*/*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := errors.Join(os.Remove(files[0]), syscall.Mkfifo(files[0], 0o600)); err != nil {
		t.Fatal(err)
	}
	run, j := h.turn(a, "a pipe")
	wantSuccess(t, run, "noted")
	if got := h.conversation(); !strings.Contains(got, "my colour is green") || len(j.of(claude.EventRestored)) != 1 {
		t.Errorf("the conversation (%v):\n%s", j.of(claude.EventWarning), got)
	}
	run, j = h.turn(a, "an endless device")
	wantSuccess(t, run, "noted")
	if run.Completion.Transcript != nil || !j.warned("transcript_not_kept") {
		t.Errorf("a device was kept: %+v, %v", run.Completion.Transcript, j.of(claude.EventWarning))
	}
}

func TestATranscriptThatItsOwnWorkerCannotUseIsReplacedByASummary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(h *harness) // the first turn
		harm   func(a *archive, h *harness)
		code   string
	}{
		"the server has lost it": {harm: func(a *archive, _ *harness) { clear(a.kept) }, code: "transcript_missing"},
		"a newer version has written to it": {harm: func(a *archive, h *harness) {
			a.rewrite(`{"type":"turn/v9"}` + "\n")
		}, code: "session_gone"},
		"for another folder": {
			before: func(h *harness) { h.config.Transcripts = nil }, // a worker of before there were transcripts
			harm: func(a *archive, h *harness) {
				a.said["ctx"] = []bloom.Exchange{{Prompt: "my colour is green", Output: "noted"}}
				h.config.Transcripts, h.config.Workdir = a, t.TempDir()
			}, code: "session_elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, harnesses := fleet(t, 1, 1, standin.Sequence(standin.Reply{Text: "noted"}))
			h := harnesses[0]
			if c.before != nil {
				c.before(h)
			}
			h.turn(a, "my colour is green")
			c.harm(a, h)
			h.beginsAnew(a, c.code)
		})
	}
}
