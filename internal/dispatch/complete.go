package dispatch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/transcripts"
)

const textMedia = "text/plain; charset=utf-8"

// Complete records the outcome of a lease. Long content is uploaded before the commit;
// if the commit is refused, the upload is deleted. Repeating a completion returns the
// records of the first.
func (s *Service) Complete(ctx context.Context, taskID string, c bloom.Completion, actor string) (bloom.Completed, error) {
	input.Normalize(&c)
	limit(&c)
	if c.LeaseID != "" && !storable.IsID(c.LeaseID) {
		return bloom.Completed{}, bloom.ErrLeaseLost
	}
	req, err := newCompleteRequest(taskID, c, actor)
	if err != nil {
		return bloom.Completed{}, err
	}
	if err := s.Transcripts.Check(ctx, &req); err != nil {
		return bloom.Completed{}, err
	}
	if err := s.uploadOutput(ctx, &req); err != nil {
		return bloom.Completed{}, err
	}
	done, err := s.store.Complete(ctx, req)
	if err != nil {
		s.cleanUpRefused(ctx, req, err)
		return bloom.Completed{}, err
	}
	switch {
	case done.Replayed: // its parts may have been replaced since
		s.deleteUpload(ctx, req, done.Artifact.URL)
	case req.NotSaved == transcripts.MissingUpload:
		s.log.ErrorContext(ctx, "not updating the context: an upload is missing; do all servers share the artifact storage?", "task_id", taskID, "context_id", req.ContextID)
	}
	if done.Result.Output == nil {
		done.Result.Output = c.Output // the body is the same, and so is the output
	}
	return done, nil
}

// Longest texts of an outcome, in bytes. A completion with longer ones is not refused: the work is done.
const (
	maxErrorMessage = 64 << 10
	maxTag          = 256
	maxModel        = 256
)

func limit(c *bloom.Completion) {
	if c.ErrorMessage != nil {
		c.ErrorMessage = new(storable.Cut(*c.ErrorMessage, maxErrorMessage))
	}
	for i, tag := range c.ArtifactTags {
		c.ArtifactTags[i] = storable.Cut(tag, maxTag)
	}
	c.Metrics.Model = storable.Cut(c.Metrics.Model, maxModel)
}

func newCompleteRequest(taskID string, c bloom.Completion, actor string) (contract.CompleteRequest, error) {
	artifactID, err := uuid.NewV7()
	if err != nil {
		return contract.CompleteRequest{}, bloom.Internal(err)
	}
	resultID, err := uuid.NewV7()
	if err != nil {
		return contract.CompleteRequest{}, bloom.Internal(err)
	}
	var content string
	if c.Output != nil {
		content = *c.Output
	}
	sum := sha256.New()
	buffer := make([]byte, min(len(content)+1, outputChunk)) // converting to []byte would copy the content
	if _, err := io.CopyBuffer(sum, struct{ io.Reader }{strings.NewReader(content)}, buffer); err != nil {
		return contract.CompleteRequest{}, bloom.Internal(err)
	}
	return contract.CompleteRequest{
		TaskID: taskID, ArtifactID: artifactID.String(), ResultID: resultID.String(),
		Completion: c, BodyHash: completionHash(c), Content: c.Output,
		Size: int64(len(content)), SHA256: hex.EncodeToString(sum.Sum(nil)), MediaType: textMedia, Actor: actor,
	}, nil
}

// uploadOutput uploads content that is too long for a row.
func (s *Service) uploadOutput(ctx context.Context, req *contract.CompleteRequest) (err error) {
	if req.Content == nil {
		return nil
	}
	req.URL, req.PendingUpload, err = s.Content.PutText(ctx, contentKey(*req, s.clock.Now()), *req.Content, req.SHA256)
	if req.URL != nil {
		req.Content = nil
	}
	return err
}

// contentKey returns the key of a completion's content: task, lease and digest, so
// that a retry reuses an earlier upload. It contains the day, so that a new upload
// never has a key old enough for maintenance.Orphans to delete.
func contentKey(req contract.CompleteRequest, now time.Time) string {
	lease := cmp.Or(req.Completion.LeaseID, "active")
	return "artifacts/" + req.TaskID + "/" + lease + "-" + req.SHA256 + "-" + now.UTC().Format("20060102")
}

// cleanUpRefused deletes the upload of a refused completion. After an internal error
// the completion may have been committed, so the content is kept; if it turns out to be
// an orphan, the sweep deletes it.
func (s *Service) cleanUpRefused(ctx context.Context, req contract.CompleteRequest, refusal error) {
	var e *bloom.Error
	if !errors.As(refusal, &e) || e.Kind == bloom.KindInternal || e.Kind == bloom.KindUnavailable {
		return
	}
	// After another refusal the upload is left to maintenance.Orphans: the accepted
	// outcome may have the same content under the same key.
	switch {
	case errors.Is(refusal, bloom.ErrLeaseLost) && req.Completion.LeaseID != "":
		s.deleteUpload(ctx, req, nil)
	case errors.Is(refusal, bloom.ErrOtherOutcome) && req.URL != nil && !s.named(ctx, req.TaskID, *req.URL):
		s.deleteUpload(ctx, req, nil)
	}
	s.refusedStale(ctx, req.TaskID, req.Completion.LeaseID, req.Actor, refusal)
}

// named reports whether an artifact of the task refers to the content, or may do so.
func (s *Service) named(ctx context.Context, taskID, url string) bool {
	list, next, err := s.store.Artifacts(ctx, bloom.ArtifactQuery{TaskID: taskID, Page: bloom.Page{Limit: bloom.MaxPageSize, TextBytes: 1}})
	return err != nil || next != (bloom.Cursor{}) || slices.ContainsFunc(list, func(a bloom.Artifact) bool { return a.URL != nil && *a.URL == url })
}

// deleteUpload deletes the upload of req, unless its URL is kept. It also runs when ctx
// has ended.
func (s *Service) deleteUpload(ctx context.Context, req contract.CompleteRequest, kept *string) {
	if req.URL == nil || (kept != nil && *kept == *req.URL) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.Content.Blobs.Delete(ctx, *req.URL); err != nil {
		s.log.WarnContext(ctx, "deleting an orphaned upload failed; the sweep will delete it", "url", *req.URL, "error", err)
	}
}
