package claude

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// Transcripts keeps the transcripts of contexts where other workers find them. Its
// methods are called under the task's lease.
type Transcripts interface {
	// State says what is kept of the task's context.
	State(ctx context.Context, task bloom.Task) (bloom.TranscriptState, error)
	// Open streams it, in zstd frames. The caller closes it.
	Open(ctx context.Context, task bloom.Task) (io.ReadCloser, error)
	// Put adds a part, one zstd frame. It counts with the task's completion.
	Put(ctx context.Context, task bloom.Task, frame []byte) (bloom.TranscriptPart, error)
	// Earlier are the context's last completed tasks, the oldest first.
	Earlier(ctx context.Context, task bloom.Task) ([]bloom.Exchange, error)
}

// ErrAway says that the server cannot be asked now, and may be later.
var ErrAway = errors.New("the server is away")

const (
	// fetchTries is how often a transcript is fetched that turns out not to be whole.
	fetchTries = 3
	// manyParts is from how many parts on a transcript is sent anew, in few.
	manyParts = 48
	// moveTime bounds the moving of one transcript.
	moveTime = 2 * time.Minute
)

// mark is a transcript as it was at a certain time: the beginning of the present one.
type mark struct {
	SessionID string `json:"session_id"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
}

func (m *mark) is(st bloom.TranscriptState) bool {
	return m != nil && m.SessionID == st.SessionID && m.SHA256 == st.SHA256 && m.Size == st.Size
}

// settle makes the session that the task goes on with what the context's conversation
// is by the last completion: what another worker has added is fetched, what a turn has
// left that was not completed is cut off. It answers with the session to resume; the
// zero value begins a new one. While the server is away it waits, and fails in the end:
// the conversation is not begun anew for that.
func (t *taskRun) settle(ctx context.Context, saved savedSession) (savedSession, error) {
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	st, err := t.state(ctx)
	switch {
	case errors.Is(err, ErrAway):
		return saved, err
	case err != nil:
		t.config.Log.Warn("the server does not say what it has of a context; its session is used as it is here", "error", err)
		if t.known, t.parts = saved.Base, saved.Parts; saved.Pushed {
			t.known = saved.Next
		}
		return saved, nil
	case st.SessionID == "":
		return t.settleAlone(ctx, saved, st), nil
	}
	t.known, t.parts = &mark{st.SessionID, st.Size, st.SHA256}, st.Parts
	here := saved.Workdir == t.workdir
	switch {
	case !here:
	case saved.Next.is(st), saved.Base.is(st) && saved.Pushed:
		// The last turn was completed; or it was not, and is taken back.
		if t.cutTo(*t.known) {
			saved.SessionID = st.SessionID
			return saved, nil
		}
	case saved.Base.is(st) && saved.Next != nil:
		if t.cutTo(*saved.Next) { // the server could not be given the last turn
			saved.SessionID = saved.Next.SessionID
			return saved, nil
		}
	}
	if err := t.fetch(ctx, st); errors.Is(err, ErrAway) {
		return saved, err
	} else if err != nil {
		t.config.Log.Warn("a transcript cannot be restored", "context_id", t.task.ContextID, "error", err)
		t.emit.warn("transcript_damaged", "the context's transcript cannot be restored; a new session is begun with what is known of the last tasks")
		t.recall(ctx)
		return savedSession{}, nil
	}
	t.restored = true
	t.emit.send(EventRestored, data{"session_id": st.SessionID, "bytes": st.Size})
	return savedSession{ContextID: t.task.ContextID, SessionID: st.SessionID, Workdir: t.workdir, Movable: true}, nil
}

// state asks the server what it has, again while it is away.
func (t *taskRun) state(ctx context.Context) (st bloom.TranscriptState, err error) {
	err = persist(ctx, func() (again bool, err error) {
		st, err = t.config.Transcripts.State(ctx, t.task)
		return errors.Is(err, ErrAway), err
	})
	return st, err
}

// fetch restores the transcript, again while the server is away, and some times when it
// does not come whole: a connection may have been cut.
func (t *taskRun) fetch(ctx context.Context, st bloom.TranscriptState) error {
	tries := 0
	return persist(ctx, func() (again bool, err error) {
		err = t.restore(ctx, st)
		if errors.Is(err, ErrAway) {
			return true, err
		}
		tries++
		return tries < fetchTries && bloom.KindOf(err) != bloom.KindNotFound, err
	})
}

// persist calls try again for as long as it says so. When ctx ends first the error is
// ErrAway.
func persist(ctx context.Context, try func() (again bool, err error)) error {
	for wait := (retry.Policy{First: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}).Waits(); ; {
		again, err := try()
		if err == nil || !again {
			return err
		}
		if retry.Sleep(ctx, wait()) != nil {
			return fmt.Errorf("%w: %w", ErrAway, err)
		}
	}
}

// settleAlone settles a context of which the server has no transcript.
func (t *taskRun) settleAlone(ctx context.Context, saved savedSession, st bloom.TranscriptState) savedSession {
	switch {
	case saved.SessionID != "" && !saved.Movable:
		return saved // from before transcripts were kept
	case saved.Next != nil && !saved.Pushed && saved.Workdir == t.workdir && t.cutTo(*saved.Next):
		saved.SessionID = saved.Next.SessionID
		return saved
	}
	if st.Earlier > 0 {
		t.recall(ctx)
		if t.recalled != "" {
			t.emit.warn("transcript_missing", "there is no transcript of this context; a new session is begun with what is known of the last tasks")
		}
	}
	return savedSession{}
}

// recall puts what the server knows of the context's last tasks before the prompt.
func (t *taskRun) recall(ctx context.Context) {
	earlier, err := t.config.Transcripts.Earlier(ctx, t.task)
	if err != nil {
		t.config.Log.Warn("nothing is known of a context's last tasks", "error", err)
	}
	if len(earlier) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString("This continues a conversation whose transcript is lost. These were its last messages:\n\n")
	for _, x := range earlier {
		fmt.Fprintf(&b, "<earlier_message role=\"user\">\n%s\n</earlier_message>\n<earlier_message role=\"assistant\">\n%s\n</earlier_message>\n\n", x.Prompt, x.Output)
	}
	b.WriteString("The present message follows.\n\n")
	t.recalled = b.String()
}

// projects is where claude keeps sessions.
func (c Config) projects() string {
	env := c.environment()
	if dir := lookup(env, "CLAUDE_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, "projects")
	}
	return filepath.Join(lookup(env, "HOME"), ".claude", "projects")
}

// folderOf is the name that claude gives to the sessions of a working folder.
func folderOf(workdir string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, workdir)
}

// validSession refuses what is no plain file name.
func validSession(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// sessionFile is where claude keeps the session of a working folder.
func (c Config) sessionFile(workdir, sessionID string) string {
	return filepath.Join(c.projects(), folderOf(workdir), sessionID+".jsonl")
}

// cutTo cuts the session's file to what it was then. It is false when the file is not
// there or does not begin like that.
func (t *taskRun) cutTo(m mark) bool {
	if !validSession(m.SessionID) {
		return false
	}
	f, err := openRegular(t.config.sessionFile(t.workdir, m.SessionID), os.O_RDWR)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < m.Size || m.Size > bloom.MaxTranscript {
		return false
	}
	begin := sha256.New()
	if _, err := io.CopyN(begin, f, m.Size); err != nil || hexSum(begin) != m.SHA256 {
		return false
	}
	if info.Size() == m.Size || t.runner.pool.has(t.task.ContextID) {
		return true // a living process has served completed turns only
	}
	return f.Truncate(m.Size) == nil
}

var errTranscriptSize = fmt.Errorf("the transcript has more than the %d bytes that are kept", int64(bloom.MaxTranscript))

// digest reads a transcript once: its size, the SHA-256 of its first n bytes and that of
// all of it.
func digest(path string, n int64) (size int64, first, all string, err error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return 0, "", "", err
	}
	defer f.Close()
	content, whole := io.LimitReader(f, bloom.MaxTranscript+1), sha256.New()
	begin, err := io.CopyN(whole, content, n)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, "", "", err
	}
	first = hexSum(whole)
	rest, err := io.Copy(whole, content)
	if size = begin + rest; err == nil && size > bloom.MaxTranscript {
		err = errTranscriptSize
	}
	return size, first, hexSum(whole), err
}

// restore puts the transcript that the server has in its place, whole or not at all.
func (t *taskRun) restore(ctx context.Context, st bloom.TranscriptState) (err error) {
	if !validSession(st.SessionID) || st.Size > bloom.MaxTranscript {
		return errors.New("the transcript's name or size is wrong")
	}
	t.runner.pool.evict(t.task.ContextID)
	path := t.config.sessionFile(t.workdir, st.SessionID)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	frames, err := t.config.Transcripts.Open(ctx, t.task)
	if err != nil {
		return err
	}
	defer frames.Close()
	from, err := unpackParts(frames)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.CreateTemp(filepath.Dir(path), ".bloom-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(from, st.Size+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if n != st.Size || hexSum(sum) != st.SHA256 {
		return errors.New("the transcript is not what was kept")
	}
	return os.Rename(f.Name(), path)
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// keepTranscript gives the server what the turn has added to the context's transcript,
// for the completion to name it. An attempt that will be repeated adds nothing.
func (t *taskRun) keepTranscript(ctx context.Context, v verdict) *bloom.TranscriptUpdate {
	if t.config.Transcripts == nil || !t.first || v.release || v.retryable || !validSession(t.sessionID) ||
		errors.Is(context.Cause(ctx), bloom.ErrLeaseGone) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveTime)
	defer cancel()
	path := t.config.sessionFile(t.workdir, t.sessionID)
	if v.ok {
		awaitLine(ctx, path, t.lastMessage)
	}
	update, err := t.push(ctx, path)
	if err != nil {
		t.config.Log.Warn("a context's transcript could not be given to the server", "context_id", t.task.ContextID, "error", err)
		t.emit.warn("transcript_not_kept", "this turn's transcript could not be given to the server; until a later turn's is, only this worker has it")
	}
	return update
}

// push uploads and notes what was uploaded.
func (t *taskRun) push(ctx context.Context, path string) (*bloom.TranscriptUpdate, error) {
	known := mark{}
	if t.known != nil {
		known = *t.known
	}
	if info, err := os.Stat(path); err == nil && info.Size() > bloom.MaxTranscript {
		return nil, errTranscriptSize
	}
	size, first, all, err := digest(path, known.Size)
	if err != nil {
		return nil, err
	}
	u := &bloom.TranscriptUpdate{SessionID: t.sessionID, Size: size, SHA256: all, Parts: []bloom.TranscriptPart{}}
	from := int64(0)
	if known.Size > 0 && known.SessionID == t.sessionID && known.SHA256 == first && size >= known.Size && t.parts < manyParts {
		u.After, from = known.SHA256, known.Size
	}
	saved := savedSession{ContextID: t.task.ContextID, SessionID: t.sessionID, Workdir: t.workdir, UpdatedAt: bloom.Millis(t.config.Clock.Now()), Movable: true,
		Base: t.known, Next: &mark{t.sessionID, size, all}, Parts: t.parts}
	u.Parts, err = t.upload(ctx, path, from, size)
	if saved.Pushed = err == nil; saved.Pushed {
		if saved.Parts += len(u.Parts); u.After == "" {
			saved.Parts = len(u.Parts)
		}
	} else {
		u = nil
	}
	return u, errors.Join(err, t.runner.sessions.save(saved))
}

// upload sends the bytes of a file from one place to another in compressed parts.
func (t *taskRun) upload(ctx context.Context, path string, from, to int64) ([]bloom.TranscriptPart, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	parts, err := newPartWriter(func(frame []byte) (bloom.TranscriptPart, error) { return t.config.Transcripts.Put(ctx, t.task, frame) })
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(parts, f, to-from); err != nil {
		return nil, err
	}
	return parts.close()
}

// flushTime is how long a living process may take to write what it has answered.
const flushTime = 2 * time.Second

// awaitLine waits until a session's file has the turn's last message, which a living
// process writes a moment after it has printed it.
func awaitLine(ctx context.Context, path, messageID string) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for messageID != "" && !endsWith(path, messageID) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// tailSize is how much of the end of a session's file is looked at.
const tailSize = 1 << 20

// endsWith reports whether the last lines of a file name the message and are whole.
func endsWith(path, messageID string) bool {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	if _, err := f.Seek(max(0, info.Size()-tailSize), io.SeekStart); err != nil {
		return false
	}
	tail, err := io.ReadAll(io.LimitReader(f, 2*tailSize))
	return err == nil && bytes.HasSuffix(tail, []byte("\n")) && bytes.Contains(tail, []byte(messageID))
}
