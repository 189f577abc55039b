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
	"sync"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// archive is the server's part of moving contexts, in memory.
type archive struct {
	mu     sync.Mutex
	frames map[string][]byte
	kept   map[string]contract.Transcript // by context
	said   map[string][]bloom.Exchange
	away   bool
	puts   int // bytes
	refuse int // so many calls fail that may succeed later; below 0 all of them
	cut    int // so many connections break while a transcript is sent, each at another byte
	onPut  func(ctx context.Context) error
	onOpen func() // called once, before a transcript is sent
	onlyOn string // the worker that alone has the last turn
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
	return &archive{frames: map[string][]byte{}, kept: map[string]contract.Transcript{}, said: map[string][]bloom.Exchange{}}
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
		return bloom.TranscriptState{}, fmt.Errorf("%w: refused", claude.ErrUnavailable)
	}
	t := a.kept[task.ContextID]
	return bloom.TranscriptState{SessionID: t.SessionID, Size: t.Size, SHA256: t.SHA256, Parts: len(t.Parts), Earlier: int64(len(a.said[task.ContextID])), OnlyOn: a.onlyOn}, nil
}

func (a *archive) Open(_ context.Context, task bloom.Task) (io.ReadCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused() {
		return nil, fmt.Errorf("%w: refused", claude.ErrUnavailable)
	}
	if a.onOpen != nil {
		a.onOpen()
		a.onOpen = nil
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
		all = all[:len(all)/(a.cut+1)]
		a.cut--
		return io.NopCloser(io.MultiReader(bytes.NewReader(all), iotest.ErrReader(io.ErrUnexpectedEOF))), nil
	}
	return io.NopCloser(bytes.NewReader(all)), nil
}

func (a *archive) Put(ctx context.Context, _ bloom.Task, frame []byte) (bloom.TranscriptPart, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return bloom.TranscriptPart{}, errAway
	}
	if a.onPut != nil {
		if err := a.onPut(ctx); err != nil {
			return bloom.TranscriptPart{}, err
		}
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
func (a *archive) complete(t *testing.T, task bloom.Task, run attempt.Run) {
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
	now, ok := a.applied(task, run)
	if !ok {
		t.Errorf("the update does not go on from what is kept: %+v", *c.Transcript)
		return
	}
	a.kept[task.ContextID] = now
}

// applied returns the transcript after a completion. ok is false if it is refused.
func (a *archive) applied(task bloom.Task, run attempt.Run) (now contract.Transcript, ok bool) {
	was, there := a.kept[task.ContextID]
	if !there {
		return contract.WithTurn(nil, *run.Completion.Transcript)
	}
	return contract.WithTurn(&was, *run.Completion.Transcript)
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
func fleet(t *testing.T, n, warm int, respond standin.Responder) (*archive, []*harness) {
	t.Helper()
	a := newArchive()
	harnesses := []*harness{newHarness(t, respond)}
	for range n - 1 {
		h := *harnesses[0]
		h.home = t.TempDir()
		h.config.Workdir, h.config.StateDir = t.TempDir(), t.TempDir()
		h.config.Environ = append([]string{}, h.config.Environ...)
		h.setEnv("HOME", h.home)
		harnesses = append(harnesses, &h)
	}
	for _, h := range harnesses {
		h.config.Warm, h.config.Transcripts = warm, a
	}
	return a, harnesses
}

// turn runs a task to its completion.
func (h *harness) turn(a *archive, prompt string) (attempt.Run, *journal) {
	h.t.Helper()
	b := task(prompt)
	run, j := h.run(b)
	a.complete(h.t, b, run)
	h.accepted(b)
	return run, j
}

// accepted is what the worker does when the server has accepted a run's outcome.
func (h *harness) accepted(b bloom.Task) {
	h.t.Helper()
	if err := h.runner().Accepted(b.ContextID, *b.LeaseID); err != nil {
		h.t.Error(err)
	}
}

func (h *harness) conversation() string {
	requests := h.model.Requests()
	return requests[len(requests)-1].Conversation()
}

// modes are the ways in which a worker runs claude.
var modes = map[string]int{"cold": 0, "warm": 1}
