package claude_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// archive is the server's part of moving contexts, in memory.
type archive struct {
	mu     sync.Mutex
	frames map[string][]byte
	kept   map[string]bloom.Transcript // by context
	said   map[string][]bloom.Exchange
	away   bool
	puts   int // bytes
	refuse int // so many calls fail that may succeed later; below 0 all of them
	cut    int // so many transcripts end before their end
}

// refused reports that a call fails.
func (a *archive) refused() bool {
	if a.refuse != 0 {
		a.refuse--
		return true
	}
	return false
}

func newArchive() *archive {
	return &archive{frames: map[string][]byte{}, kept: map[string]bloom.Transcript{}, said: map[string][]bloom.Exchange{}}
}

// copied is an archive of its own with the same in it.
func (a *archive) copied() *archive {
	return &archive{frames: maps.Clone(a.frames), kept: maps.Clone(a.kept), said: maps.Clone(a.said)}
}

var errAway = errors.New("the server is away")

func (a *archive) State(_ context.Context, task bloom.Task) (bloom.TranscriptState, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return bloom.TranscriptState{}, errAway
	}
	if a.refused() {
		return bloom.TranscriptState{}, fmt.Errorf("%w: refused", claude.ErrAway)
	}
	t := a.kept[task.ContextID]
	return bloom.TranscriptState{SessionID: t.SessionID, Size: t.Size, SHA256: t.SHA256, Parts: len(t.Parts), Earlier: int64(len(a.said[task.ContextID]))}, nil
}

func (a *archive) Open(_ context.Context, task bloom.Task) (io.ReadCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused() {
		return nil, fmt.Errorf("%w: refused", claude.ErrAway)
	}
	var all []byte
	for _, p := range a.kept[task.ContextID].Parts {
		frame, ok := a.frames[p.URL]
		if !ok {
			return nil, errors.New("a part is gone")
		}
		all = append(all, frame...)
	}
	if a.cut > 0 {
		a.cut--
		all = all[:len(all)/2]
	}
	return io.NopCloser(bytes.NewReader(all)), nil
}

func (a *archive) Put(_ context.Context, _ bloom.Task, frame []byte) (bloom.TranscriptPart, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return bloom.TranscriptPart{}, errAway
	}
	url := fmt.Sprint("file:", len(a.frames))
	a.frames[url] = bytes.Clone(frame)
	a.puts += len(frame)
	return bloom.TranscriptPart{URL: url, Size: int64(len(frame))}, nil
}

func (a *archive) Earlier(_ context.Context, task bloom.Task) ([]bloom.Exchange, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.said[task.ContextID], nil
}

// complete is what the server does with a completion.
func (a *archive) complete(t *testing.T, task bloom.Task, run bloom.Run) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	c := run.Completion
	if c.Output != nil {
		a.said[task.ContextID] = append(a.said[task.ContextID], bloom.Exchange{Prompt: task.Prompt, Output: *c.Output})
	}
	if c.Transcript == nil {
		return
	}
	was, there := a.kept[task.ContextID]
	now, ok := c.Transcript.Applied(&was)
	if !there {
		now, ok = c.Transcript.Applied(nil)
	}
	if !ok {
		t.Errorf("the update does not go on from what is kept: %+v", *c.Transcript)
		return
	}
	a.kept[task.ContextID] = now
}

// rewrite has the archive keep other content for a transcript, as if it had been given it.
func (a *archive) rewrite(content string) {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer zip.Close()
	frame := zip.EncodeAll([]byte(content), nil)
	k := a.kept["ctx"]
	k.Parts = []bloom.TranscriptPart{{URL: "file:rewritten", Size: int64(len(frame))}}
	sum := sha256.Sum256([]byte(content))
	k.Size, k.SHA256 = int64(len(content)), hex.EncodeToString(sum[:])
	a.frames["file:rewritten"], a.kept["ctx"] = frame, k
}

// fleet are workers that share an archive and a model, each with its own folders.
func fleet(t *testing.T, n, warm int, respond standin.Responder) (*archive, []*house) {
	t.Helper()
	a := newArchive()
	houses := []*house{newHouse(t, respond)}
	for range n - 1 {
		h := *houses[0]
		h.home = t.TempDir()
		h.config.Workdir, h.config.StateDir = t.TempDir(), t.TempDir()
		h.config.Environ = append([]string{}, h.config.Environ...)
		h.setEnv("HOME", h.home)
		houses = append(houses, &h)
	}
	for _, h := range houses {
		h.config.Warm, h.config.Transcripts = warm, a
	}
	return a, houses
}

// turn runs a task to its completion.
func (h *house) turn(a *archive, prompt string) (bloom.Run, *journal) {
	h.t.Helper()
	b := task(prompt)
	run, j := h.run(b)
	a.complete(h.t, b, run)
	return run, j
}

func (h *house) conversation() string {
	requests := h.model.Requests()
	return requests[len(requests)-1].Conversation()
}

// modes are the ways in which a worker runs claude.
var modes = map[string]int{"cold": 0, "warm": 1}

func TestAContextMovesFromWorkerToWorker(t *testing.T) {
	t.Parallel()
	for mode, warm := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			a, houses := fleet(t, 3, warm, standin.Sequence(standin.Reply{Text: "noted"}))
			turns := []string{"first: my colour is green", "second: my number is 7", "third", "fourth", "fifth", "sixth"}
			for i, prompt := range turns {
				// Twice here, then twice on the next worker.
				run, j := houses[i/2%3].turn(a, prompt)
				wantSuccess(t, run, "noted")
				if run.Completion.Transcript == nil {
					t.Fatalf("turn %d gave the server no transcript: %v", i, j.of(claude.EventWarning))
				}
				got := houses[0].conversation()
				for _, earlier := range turns[:i+1] {
					if n := strings.Count(got, earlier); n != 1 {
						t.Errorf("%q is %d times in the conversation of turn %d", earlier, n, i)
					}
				}
				if restored := len(j.of(claude.EventRestored)); restored != 1 && i%2 == 0 && i > 0 || restored != 0 && i%2 == 1 {
					t.Errorf("turn %d restored %d times", i, restored)
				}
			}
			if whole := run0(houses[0], a).Completion.Transcript.After; whole == "" {
				t.Error("a later turn sent the whole transcript again")
			}
		})
	}
}

func run0(h *house, a *archive) bloom.Run {
	run, _ := h.turn(a, "once more")
	return run
}

func TestATurnThatWasNotCompletedIsTakenBack(t *testing.T) {
	t.Parallel()
	for mode, warm := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			a, houses := fleet(t, 1, warm, standin.Sequence(standin.Reply{Text: "noted"}))
			h := houses[0]
			h.turn(a, "my colour is green")
			h.run(task("the lost turn")) // its completion never comes
			h.runner().Close()
			h.made = nil // as after a kill
			run, j := h.turn(a, "the lost turn")
			wantSuccess(t, run, "noted")
			got := h.conversation()
			if strings.Count(got, "the lost turn") != 1 || !strings.Contains(got, "my colour is green") {
				t.Errorf("the conversation (%v):\n%s", j.of(claude.EventWarning), got)
			}
		})
	}
}

func TestWhatTheServerCouldNotBeGivenIsNotLost(t *testing.T) {
	t.Parallel()
	a, houses := fleet(t, 2, 0, standin.Sequence(standin.Reply{Text: "noted"}))
	houses[0].turn(a, "one green")
	a.away = true
	run, j := houses[0].turn(a, "two blue")
	wantSuccess(t, run, "noted")
	if run.Completion.Transcript != nil || !j.warned("transcript_not_kept") {
		t.Errorf("events %v", j.of(claude.EventWarning))
	}
	a.away = false
	houses[0].turn(a, "three red")
	houses[1].turn(a, "four")
	got := houses[0].conversation()
	for _, word := range []string{"one green", "two blue", "three red"} {
		if !strings.Contains(got, word) {
			t.Errorf("%q is lost:\n%s", word, got)
		}
	}
}

func TestAnOutageCostsTimeAndNotTheConversation(t *testing.T) {
	t.Parallel()
	a, houses := fleet(t, 2, 0, standin.Sequence(standin.Reply{Text: "noted"}))
	houses[0].turn(a, "my colour is green")
	was := a.kept["ctx"]
	a.refuse = -1
	short := task("what is my colour?")
	short.Policy.TimeoutSec = 1
	run, j := houses[1].run(short)
	if wantError(t, run, bloom.ClassTimeout); run.Completion.Transcript != nil || len(j.of(claude.EventWarning)) > 0 {
		t.Errorf("events %v, %s", j.of(claude.EventWarning), show(run))
	}
	a.refuse, a.cut = 3, 2
	run, j = houses[1].turn(a, "what is my colour?")
	wantSuccess(t, run, "noted")
	if u := run.Completion.Transcript; u == nil || u.After != was.SHA256 || len(j.of(claude.EventRestored)) != 1 || len(j.of(claude.EventWarning)) > 0 {
		t.Errorf("events %v, the transcript goes on with %+v", j.of(claude.EventWarning), u)
	}
	if got := houses[1].conversation(); !strings.Contains(got, "my colour is green") || strings.Contains(got, "earlier_message") {
		t.Errorf("the conversation:\n%s", got)
	}
}

func TestATranscriptThatCannotBeUsedIsReplacedByASummary(t *testing.T) {
	t.Parallel()
	before, houses := fleet(t, 1, 0, standin.Sequence(standin.Reply{Text: "noted"}))
	houses[0].turn(before, "my colour is green")
	spoil := func(a *archive, with []byte) {
		for url := range a.frames {
			a.frames[url] = with
		}
	}
	for name, c := range map[string]struct {
		harm func(a *archive)
		code string
	}{
		"damaged":   {func(a *archive) { spoil(a, []byte("no zstd")) }, "transcript_damaged"},
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
			_, houses := fleet(t, 1, 0, standin.Sequence(standin.Reply{Text: "noted"}))
			a := before.copied()
			houses[0].config.Transcripts = a
			c.harm(a)
			houses[0].beginsAnew(a, c.code)
		})
	}
}

// beginsAnew takes a turn and wants a new session with a summary, and an event that says
// why.
func (h *house) beginsAnew(a *archive, code string) {
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

// A task can reach what claude keeps of its session.
func TestATranscriptThatIsNoFileHoldsUpNobody(t *testing.T) {
	t.Parallel()
	const spoil = `for f in "$HOME"/.claude/projects/*/*.jsonl; do ln -sf /dev/zero "$f"; done`
	noted := standin.Reply{Text: "noted"}
	a, houses := fleet(t, 1, 0, standin.Sequence(noted, noted, standin.Tool("", "Bash", map[string]any{"command": spoil}), noted))
	h := houses[0]
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
		before func(h *house) // the first turn
		harm   func(a *archive, h *house)
		code   string
	}{
		"the server has lost it": {harm: func(a *archive, _ *house) { clear(a.kept) }, code: "transcript_missing"},
		"a newer version has written to it": {harm: func(a *archive, h *house) {
			a.rewrite(`{"type":"turn/v9"}` + "\n")
		}, code: "session_gone"},
		"for another folder": {
			before: func(h *house) { h.config.Transcripts = nil }, // a worker of before there were transcripts
			harm: func(a *archive, h *house) {
				a.said["ctx"] = []bloom.Exchange{{Prompt: "my colour is green", Output: "noted"}}
				h.config.Transcripts, h.config.Workdir = a, t.TempDir()
			}, code: "session_elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, houses := fleet(t, 1, 1, standin.Sequence(standin.Reply{Text: "noted"}))
			h := houses[0]
			if c.before != nil {
				c.before(h)
			}
			h.turn(a, "my colour is green")
			c.harm(a, h)
			h.beginsAnew(a, c.code)
		})
	}
}

func TestAContextIsForgotten(t *testing.T) {
	t.Parallel()
	a, houses := fleet(t, 1, 1, standin.Sequence(standin.Reply{Text: "noted"}))
	h := houses[0]
	h.turn(a, "my colour is green")
	if err := h.runner().Forget("ctx")(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := sessionFiles(t, h); len(left) > 0 {
		t.Errorf("left on the worker: %v", left)
	}
	if left := processesIn(t, h.config.Workdir); len(left) > 0 {
		t.Errorf("a process is left: %v", left)
	}
	delete(a.kept, "ctx")
	delete(a.said, "ctx")
	h.turn(a, "who am I?")
	if got := h.conversation(); strings.Contains(got, "green") {
		t.Errorf("it is remembered:\n%s", got)
	}
}

func sessionFiles(t *testing.T, h *house) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(h.home, ".claude", "projects"), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".jsonl") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
