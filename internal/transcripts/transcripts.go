// Package transcripts keeps what the tasks of a context share: the transcript of Claude's conversation
// and the snapshot of the working folder, both in parts that workers upload.
package transcripts

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/content"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Store keeps transcripts and working folders. It is safe for concurrent use.
type Store struct {
	Rows    contract.Store
	Content *content.Store
	Clock   timing.Clock
	Log     *slog.Logger
}

// Transcript returns the state of the transcript of a task's context and, if open is true, its
// concatenated parts. The caller closes them. A task that was suspended has its own.
func (s *Store) Transcript(ctx context.Context, task bloom.Task, open bool) (st bloom.TranscriptState, parts io.ReadCloser, err error) {
	t, err := s.Rows.Transcript(ctx, task.ContextID)
	if own := t.Suspended(task.ID); err == nil && own != nil {
		t, st.Base = &own.Transcript, &own.Base
	}
	if t != nil && t.Workspace != nil {
		st.OnlyOn = t.Workspace.TalkOnlyOn
	}
	switch {
	case err != nil:
		return st, nil, err
	case t != nil && t.SessionID != "":
		st.SessionID, st.Size, st.SHA256, st.Parts = t.SessionID, t.Size, t.SHA256, len(t.Parts)
		if open {
			parts, err = s.open(ctx, t.Parts)
		}
		return st, parts, err
	case open:
		return st, nil, bloom.NotFound("Transcript")
	}
	x, err := s.Rows.Context(ctx, task.ContextID)
	if err != nil && !errors.Is(err, bloom.ErrContextNotFound) {
		return st, nil, err
	}
	st.Earlier = max(0, x.Tasks-1)
	return st, nil, nil
}

// Workspace returns the state of the working folder of a task's context and, if open is true, its
// snapshot. The caller closes it. A task that was suspended has its own.
func (s *Store) Workspace(ctx context.Context, task bloom.Task, open bool) (st bloom.WorkspaceState, parts io.ReadCloser, err error) {
	t, err := s.Rows.Transcript(ctx, task.ContextID)
	if err != nil {
		return st, nil, err
	}
	if own := t.Suspended(task.ID); own != nil && own.Workspace != nil {
		t = &own.Transcript
	}
	if t != nil && t.Workspace != nil {
		st = bloom.WorkspaceState{Size: t.Workspace.Size, SHA256: t.Workspace.SHA256, OnlyOn: t.Workspace.OnlyOn}
	}
	switch {
	case !open:
		return st, nil, nil
	case st.SHA256 == "":
		return st, nil, bloom.NotFound("Workspace")
	}
	parts, err = s.open(ctx, t.Workspace.Parts)
	return st, parts, err
}

// Limits of Earlier.
const (
	earlierTasks = 8
	earlierBytes = 4 << 10
)

// Earlier returns the last completed tasks of a context, the oldest first, for a worker that cannot
// use the transcript.
func (s *Store) Earlier(ctx context.Context, contextID string) ([]bloom.Exchange, error) {
	x, err := s.Rows.Context(ctx, contextID)
	if err != nil {
		return nil, err
	}
	q := bloom.TaskQuery{ContextID: contextID, Status: bloom.TaskCompleted, Page: bloom.Page{Limit: earlierTasks, TextBytes: earlierBytes}}
	tasks, _, err := s.Rows.Tasks(ctx, q)
	if err != nil {
		return nil, err
	}
	out := []bloom.Exchange{}
	for i := len(tasks) - 1; i >= 0; i-- {
		if tasks[i].CreatedAt < x.CreatedAt {
			continue // from before the context was forgotten
		}
		results, err := s.Content.Results(ctx, tasks[i].ID, earlierBytes)
		if err != nil {
			return nil, err
		}
		x := bloom.Exchange{Prompt: tasks[i].Prompt}
		if len(results) > 0 && results[0].Output != nil {
			contract.CutOutput(&results[0], earlierBytes)
			x.Output = *results[0].Output
		}
		out = append(out, x)
	}
	return out, nil
}

// MissingUpload is why a turn does not count in its context.
const MissingUpload = "its upload is missing in the server's storage"

// Check refuses an update whose parts were not uploaded under its lease,
// and sets the request's context.
func (s *Store) Check(ctx context.Context, req *contract.CompleteRequest) error {
	c := req.Completion
	if !c.ChangesContext() {
		return nil
	}
	task, err := s.Rows.Task(ctx, req.TaskID)
	if err != nil {
		return err
	}
	req.ContextID = task.ContextID
	if s.mayBeSwept(c.LeaseID) {
		s.Log.WarnContext(ctx, "not updating the context: the completion came too late, and its uploads may have been deleted", "task_id", req.TaskID, "context_id", task.ContextID)
		req.NotSaved = "its completion came too late"
		return nil
	}
	prefix := partPrefix(task.ContextID, c.LeaseID)
	var parts []bloom.TranscriptPart
	if c.Transcript != nil {
		parts = c.Transcript.Parts
	}
	if c.Workspace != nil {
		parts = slices.Concat(parts, c.Workspace.Parts)
	}
	for _, p := range parts {
		gone, err := s.checkPart(ctx, p, prefix)
		if err != nil {
			return err
		}
		if gone { // the outcome counts nevertheless: running the task again would not bring them back
			req.NotSaved = MissingUpload
		}
	}
	if c.Transcript != nil { // other workers resume the session
		if id, err := uuid.Parse(c.Transcript.SessionID); err != nil || id.String() != c.Transcript.SessionID {
			req.NotSaved = "its session is none of claude's"
		}
	}
	return nil
}

// partsFor is how long after its creation a lease's uploads may be used. Older ones may
// be deleted: see maintenance.OrphanAge.
const partsFor = 24 * time.Hour

// mayBeSwept reports whether uploads under the lease may be old enough to be deleted.
func (s *Store) mayBeSwept(leaseID string) bool {
	id, err := uuid.Parse(leaseID)
	if err != nil || id.Version() != 7 {
		return false
	}
	sec, nsec := id.Time().UnixTime()
	return s.Clock.Now().Sub(time.Unix(sec, nsec)) > partsFor
}
