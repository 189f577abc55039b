package claude

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Transcripts stores the transcripts of contexts for all workers. Its methods are called
// under the task's lease.
type Transcripts interface {
	// State returns the stored version of the context's transcript.
	State(ctx context.Context, task bloom.Task) (bloom.TranscriptState, error)
	// Open opens that version, in zstd frames. The caller closes it.
	Open(ctx context.Context, task bloom.Task) (io.ReadCloser, error)
	// Put uploads a part, one zstd frame. The task's completion then names it.
	Put(ctx context.Context, task bloom.Task, frame []byte) (bloom.TranscriptPart, error)
	// Earlier returns the context's last completed tasks, oldest first.
	Earlier(ctx context.Context, task bloom.Task) ([]bloom.Exchange, error)
}

// ErrUnavailable means that the server is unavailable at the moment.
var ErrUnavailable = errors.New("the server is unavailable")

const (
	// fetchTries is how often a transcript is downloaded before it counts as damaged.
	fetchTries = 3
	// brokenTries is how often the connection may break at the same byte.
	brokenTries = 8
	// maxAppendedParts is the number of parts from which on a transcript is uploaded again
	// as a whole, in fewer parts.
	maxAppendedParts = 48
	// transferTimeout is how long the transfer of one transcript may take.
	transferTimeout = 2 * time.Minute
)

// transcriptVersion identifies a version of a transcript. Transcripts only grow, so a
// version is a prefix of every later one.
type transcriptVersion struct {
	SessionID string `json:"session_id"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
}

// versionOf returns the version that the server has, nil for none.
func versionOf(st bloom.TranscriptState) *transcriptVersion {
	if st.SessionID == "" {
		return nil
	}
	return &transcriptVersion{st.SessionID, st.Size, st.SHA256}
}

// same reports whether two versions are the same; nil is none.
func same(a, b *transcriptVersion) bool { return a == b || a != nil && b != nil && *a == *b }

// syncSession brings the local session to the state of the context's last completed task:
// it downloads turns of other workers, and removes turns that were not completed, also from
// a warm process. It returns the session to resume, the zero value for a new one. It waits
// for an unavailable server and fails in the end, rather than starting a new session.
func (t *taskRun) syncSession(ctx context.Context, saved savedSession) (savedSession, error) {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	st, err := t.state(ctx)
	switch {
	case errors.Is(err, ErrUnavailable):
		return saved, err
	case err != nil:
		t.config.Log.Warn("the server's version of a transcript is unknown; using the local session", "context_id", t.task.ContextID, "error", err)
		if t.local, t.stored, t.storedParts = saved.Next, saved.Base, saved.Parts; saved.Pushed {
			t.stored = saved.Next
		}
		return saved, nil
	case st.SessionID == "" && saved.SessionID != "" && !saved.Movable:
		return saved, nil // it began before the worker stored transcripts
	}
	t.stored, t.storedParts, t.suspendedOn = versionOf(st), st.Parts, st.Base
	if current := saved.current(t.stored, t.task.ID); current != nil && saved.Workdir == t.workdir {
		if !same(current, saved.Next) {
			t.runner.pool.evict(t.task.ContextID)
		}
		if t.truncateTo(*current) {
			t.local, saved.SessionID = current, current.SessionID
			if saved.TaskID != "" && same(current, saved.Next) {
				t.local, t.preamble = saved.Before, "This task was interrupted. Continue where you were. The task is:\n\n"
			}
			return saved, nil
		}
	}
	if st.OnlyOn != "" {
		t.emit.warn("transcript_behind", fmt.Sprintf("only worker %s has the conversation as the context's last task left it; this task continues the version before, or a new one", st.OnlyOn))
	}
	if t.stored == nil {
		t.startOver(ctx, st)
		return savedSession{}, nil
	}
	err = t.fetch(ctx, &st)
	t.stored, t.storedParts, t.suspendedOn = versionOf(st), st.Parts, st.Base
	if errors.Is(err, ErrUnavailable) {
		return saved, err
	}
	if err != nil {
		t.config.Log.Warn("a transcript cannot be restored", "context_id", t.task.ContextID, "error", err)
		t.emit.warn("transcript_damaged", "the context's transcript cannot be restored; starting a new session with a summary of the last tasks")
		t.loadEarlier(ctx)
		return savedSession{}, nil
	}
	t.restored, t.local = true, t.stored
	t.emit.send(EventRestored, data{"session_id": st.SessionID, "bytes": st.Size})
	return savedSession{ContextID: t.task.ContextID, SessionID: st.SessionID, Workdir: t.workdir, Movable: true}, nil
}

// startOver prepares a new session for a context without a transcript.
func (t *taskRun) startOver(ctx context.Context, st bloom.TranscriptState) {
	if st.Earlier == 0 {
		return
	}
	if t.loadEarlier(ctx); t.preamble != "" {
		t.emit.warn("transcript_missing", "this context has no transcript; starting a new session with a summary of the last tasks")
	}
}

// loadEarlier sets the preamble to the context's last tasks.
func (t *taskRun) loadEarlier(ctx context.Context) {
	earlier, err := t.config.Transcripts.Earlier(ctx, t.task)
	if err != nil {
		t.config.Log.Warn("the context's last tasks cannot be read", "context_id", t.task.ContextID, "error", err)
	}
	if len(earlier) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString("This continues a conversation whose transcript is lost. These were its last messages:\n\n")
	for _, x := range earlier {
		fmt.Fprintf(&b, "<earlier_message role=\"user\">\n%s\n</earlier_message>\n<earlier_message role=\"assistant\">\n%s\n</earlier_message>\n\n", x.Prompt, x.Output)
	}
	b.WriteString("The current message follows.\n\n")
	t.preamble = guardPrompt(b.String(), t.workdir)
}
