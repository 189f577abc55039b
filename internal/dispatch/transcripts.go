package dispatch

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
)

// held returns the task of an active lease.
func (s *Service) held(ctx context.Context, taskID, leaseID string) (bloom.Task, error) {
	if leaseID == "" {
		return bloom.Task{}, bloom.ErrLeaseLost
	}
	if err := s.CheckActive(ctx, taskID, leaseID); err != nil {
		return bloom.Task{}, err
	}
	return s.store.Task(ctx, taskID)
}

// Transcript returns the state of the transcript of a held task's context and, if
// open is true, its concatenated parts. The caller closes them.
func (s *Service) Transcript(ctx context.Context, taskID, leaseID string, open bool) (st bloom.TranscriptState, content io.ReadCloser, err error) {
	task, err := s.held(ctx, taskID, leaseID)
	if err != nil {
		return st, nil, err
	}
	t, err := s.store.Transcript(ctx, task.ContextID)
	if err != nil {
		return st, nil, err
	}
	if t != nil && t.Workspace != nil {
		st.OnlyOn = t.Workspace.TalkOnlyOn
	}
	if t == nil || t.SessionID == "" {
		if open {
			return st, nil, bloom.NotFound("Transcript")
		}
		x, err := s.store.Context(ctx, task.ContextID)
		if err != nil && !errors.Is(err, bloom.ErrContextNotFound) {
			return st, nil, err
		}
		st.Earlier = max(0, x.Tasks-1)
		return st, nil, nil
	}
	st.SessionID, st.Size, st.SHA256, st.Parts = t.SessionID, t.Size, t.SHA256, len(t.Parts)
	if open {
		content, err = s.openParts(ctx, t.Parts)
	}
	return st, content, err
}

// Workspace returns the state of the working folder of a held task's context and, if
// open is true, its snapshot. The caller closes it.
func (s *Service) Workspace(ctx context.Context, taskID, leaseID string, open bool) (st bloom.WorkspaceState, content io.ReadCloser, err error) {
	task, err := s.held(ctx, taskID, leaseID)
	if err != nil {
		return st, nil, err
	}
	t, err := s.store.Transcript(ctx, task.ContextID)
	switch {
	case err != nil:
		return st, nil, err
	case t == nil || t.Workspace == nil:
		if open {
			return st, nil, bloom.NotFound("Workspace")
		}
		return st, nil, nil
	}
	st = bloom.WorkspaceState{Size: t.Workspace.Size, SHA256: t.Workspace.SHA256, OnlyOn: t.Workspace.OnlyOn}
	if open && st.SHA256 == "" {
		return st, nil, bloom.NotFound("Workspace")
	}
	if open {
		content, err = s.openParts(ctx, t.Workspace.Parts)
	}
	return st, content, err
}

// Limits of Earlier.
const (
	earlierTasks = 8
	earlierBytes = 4 << 10
)

// Earlier returns the last completed tasks of a held task's context, the oldest
// first, for a worker that cannot use the transcript.
func (s *Service) Earlier(ctx context.Context, taskID, leaseID string) ([]bloom.Exchange, error) {
	task, err := s.held(ctx, taskID, leaseID)
	if err != nil {
		return nil, err
	}
	x, err := s.store.Context(ctx, task.ContextID)
	if err != nil {
		return nil, err
	}
	q := bloom.TaskQuery{ContextID: task.ContextID, Status: bloom.TaskCompleted, Page: bloom.Page{Limit: earlierTasks, TextBytes: earlierBytes}}
	tasks, _, err := s.store.Tasks(ctx, q)
	if err != nil {
		return nil, err
	}
	out := []bloom.Exchange{}
	for i := len(tasks) - 1; i >= 0; i-- {
		if tasks[i].CreatedAt < x.CreatedAt {
			continue // from before the context was forgotten
		}
		results, err := s.results(ctx, tasks[i].ID, earlierBytes)
		if err != nil {
			return nil, err
		}
		x := bloom.Exchange{Prompt: tasks[i].Prompt}
		if len(results) > 0 && results[0].Output != nil {
			results[0].CutOutput(earlierBytes)
			x.Output = *results[0].Output
		}
		out = append(out, x)
	}
	return out, nil
}

// missingUpload is why a turn does not count in its context.
const missingUpload = "its upload is missing in the server's storage"

// checkTranscript refuses an update whose parts were not uploaded under its lease,
// and sets the request's context.
func (s *Service) checkTranscript(ctx context.Context, req *bloom.CompleteRequest) error {
	c := req.Completion
	if !c.ChangesContext() {
		return nil
	}
	task, err := s.store.Task(ctx, req.TaskID)
	if err != nil {
		return err
	}
	req.ContextID = task.ContextID
	if s.mayBeSwept(c.LeaseID) {
		s.log.WarnContext(ctx, "not updating the context: the completion came too late, and its uploads may have been deleted", "task_id", req.TaskID, "context_id", task.ContextID)
		req.Unkept = "its completion came too late"
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
			req.Unkept = missingUpload
		}
	}
	return nil
}

// partsFor is how long after its creation a lease's uploads may be used. Older ones may
// be deleted: see maintenance.OrphanAge.
const partsFor = 24 * time.Hour

// mayBeSwept reports whether uploads under the lease may be old enough to be deleted.
func (s *Service) mayBeSwept(leaseID string) bool {
	id, err := uuid.Parse(leaseID)
	if err != nil || id.Version() != 7 {
		return false
	}
	sec, nsec := id.Time().UnixTime()
	return s.clock.Now().Sub(time.Unix(sec, nsec)) > partsFor
}
