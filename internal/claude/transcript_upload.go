package claude

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/timing"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// saveTranscript uploads what the task added to the context's transcript, and returns the
// update for its completion. An attempt that will be retried adds nothing. If it had worked until
// the provider refused to go on, its task's next attempt here continues it, unless its files are
// discarded (see moving).
func (t *taskRun) saveTranscript(ctx context.Context, v verdict) *bloom.TranscriptUpdate {
	if t.config.Transcripts == nil || !t.exclusive || !validSession(t.sessionID) {
		return nil
	}
	again := v.release || v.retryable
	if again && (v.class != bloom.ClassRateLimited && v.class != bloom.ClassAuth || t.moving() || !t.worked()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	path := t.config.sessionFile(t.workdir, t.sessionID)
	if v.ok {
		awaitLine(context.WithoutCancel(ctx), path, t.lastMessage)
	}
	update, err := t.uploadTranscript(ctx, path, again)
	if err != nil {
		t.config.Log.Warn("a context's transcript could not be uploaded", "context_id", t.task.ContextID, "error", err)
		t.emit.warn(bloom.TalkNotKept, "this task's transcript could not be uploaded; until a later task's is, only this worker has it")
	}
	return update
}

// uploadTranscript uploads the transcript, or what follows the stored version, and records
// what was uploaded. An unfinished one is only recorded.
func (t *taskRun) uploadTranscript(ctx context.Context, path string, unfinished bool) (*bloom.TranscriptUpdate, error) {
	stored := transcriptVersion{}
	if t.stored != nil {
		stored = *t.stored
	}
	if info, err := os.Stat(path); err == nil && info.Size() > bloom.MaxTranscript {
		return nil, errTranscriptSize
	}
	size, prefix, all, err := digest(path, stored.Size)
	if err != nil {
		return nil, err
	}
	u := &bloom.TranscriptUpdate{SessionID: t.sessionID, Size: size, SHA256: all, Base: &t.base, Parts: []bloom.TranscriptPart{}}
	from := int64(0)
	if stored.Size > 0 && stored.SessionID == t.sessionID && stored.SHA256 == prefix && size >= stored.Size && t.storedParts < maxAppendedParts {
		u.After, from = stored.SHA256, stored.Size
	}
	saved := savedSession{ContextID: t.task.ContextID, SessionID: t.sessionID, Workdir: t.workdir, UpdatedAt: timing.Millis(t.config.Clock.Now()), Movable: true,
		Base: t.stored, Before: t.local, Next: &transcriptVersion{t.sessionID, size, all}, Parts: t.storedParts, LeaseID: t.lease()}
	if unfinished {
		saved.LeaseID, saved.TaskID = "", t.task.ID
		return nil, t.runner.sessions.save(saved)
	}
	u.Parts, err = t.uploadRange(ctx, path, from, size)
	if saved.Pushed = err == nil; saved.Pushed {
		if saved.Parts += len(u.Parts); u.After == "" {
			saved.Parts = len(u.Parts)
		}
	} else {
		u = nil
	}
	return u, errors.Join(err, t.runner.sessions.save(saved))
}

// uploadRange uploads a range of a file, in compressed parts.
func (t *taskRun) uploadRange(ctx context.Context, path string, from, to int64) ([]bloom.TranscriptPart, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f, _, err := workspace.OpenRegularPath(path, os.O_RDONLY)
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
