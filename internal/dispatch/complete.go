package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

const textMedia = "text/plain; charset=utf-8"

// Complete records the outcome of a lease. Content longer than a row should
// carry is uploaded first and committed second; when the commit is refused the
// upload is taken back. Repeating a completion gives the first one's records.
func (s *Service) Complete(ctx context.Context, taskID string, c bloom.Completion, actor string) (bloom.Completed, error) {
	if !isID(taskID) {
		return bloom.Completed{}, bloom.ErrTaskNotFound
	}
	input.Normalize(&c)
	if c.LeaseID != "" && !isID(c.LeaseID) {
		return bloom.Completed{}, bloom.ErrLeaseLost
	}
	req, err := newCompleteRequest(taskID, c, actor)
	if err != nil {
		return bloom.Completed{}, err
	}
	if err := s.checkTranscript(ctx, &req); err != nil {
		return bloom.Completed{}, err
	}
	if err := s.place(ctx, &req); err != nil {
		return bloom.Completed{}, err
	}
	done, err := s.store.Complete(ctx, req)
	if err != nil {
		s.refusedCompletion(ctx, req, err)
		return bloom.Completed{}, err
	}
	if done.Replayed {
		s.takeBack(ctx, req, done.Artifact.URL)
	}
	if done.Result.Output == nil {
		done.Result.Output = c.Output // the same body, so the same output
	}
	return done, nil
}

func newCompleteRequest(taskID string, c bloom.Completion, actor string) (bloom.CompleteRequest, error) {
	artifactID, err := uuid.NewV7()
	if err != nil {
		return bloom.CompleteRequest{}, bloom.Internal(err)
	}
	resultID, err := uuid.NewV7()
	if err != nil {
		return bloom.CompleteRequest{}, bloom.Internal(err)
	}
	var content string
	if c.Output != nil {
		content = *c.Output
	}
	sum := sha256.New()
	piece := make([]byte, min(len(content)+1, outputChunk)) // a conversion would copy all of it
	if _, err := io.CopyBuffer(sum, struct{ io.Reader }{strings.NewReader(content)}, piece); err != nil {
		return bloom.CompleteRequest{}, bloom.Internal(err)
	}
	return bloom.CompleteRequest{
		TaskID: taskID, ArtifactID: artifactID.String(), ResultID: resultID.String(),
		Completion: c, BodyHash: completionHash(c), Content: c.Output,
		Size: int64(len(content)), SHA256: hex.EncodeToString(sum.Sum(nil)), MediaType: textMedia, Actor: actor,
	}, nil
}

// completionHash is jsonHash of a completion, without the whole of a long output's
// encoding in memory.
func completionHash(c bloom.Completion) string {
	if c.Output == nil {
		return jsonHash(c)
	}
	h, output := sha256.New(), *c.Output
	_ = EncodeLong(h, output, func(short *string) any {
		c.Output = short
		return c
	})
	return hex.EncodeToString(h.Sum(nil))
}

// outputChunk is how much of an output is encoded at once, in bytes.
const outputChunk = 64 << 10

// EncodeLong writes the line of JSON of a value with a text in it that may be long,
// without the whole of a long one's encoding in memory. with gives the value with another
// text in its place.
func EncodeLong(w io.Writer, text string, with func(text *string) any) error {
	if len(text) <= outputChunk {
		_, err := w.Write(encodeJSON(with(&text)))
		return err
	}
	mark := rand.Text()
	before, after, _ := bytes.Cut(encodeJSON(with(&mark)), []byte(mark))
	if _, err := w.Write(before); err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for part := range chunks(text) {
		b.Reset()
		if err := enc.Encode(part); err != nil {
			return err
		}
		if _, err := w.Write(b.Bytes()[1 : b.Len()-2]); err != nil { // without the quotes and the line's end
			return err
		}
	}
	_, err := w.Write(after)
	return err
}

// chunks are the parts of a text, none of which ends within a character.
func chunks(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(outputChunk, len(text))
			for n < len(text) && !utf8.RuneStart(text[n]) {
				n--
			}
			if n == 0 {
				n = min(outputChunk, len(text)) // not UTF-8
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// place uploads content that does not belong in a row.
func (s *Service) place(ctx context.Context, req *bloom.CompleteRequest) error {
	if req.Content == nil || len(*req.Content) <= s.inline {
		return nil
	}
	key := contentKey(*req, s.clock.Now())
	url, err := s.blobs.Put(ctx, key, strings.NewReader(*req.Content), req.Size, req.SHA256)
	switch {
	case err == nil:
		req.Content, req.URL = nil, &url
		req.Displaced = s.objects != nil && !s.objects.Placed(url)
	case !errors.Is(err, bloom.ErrBlobsUnavailable) || len(*req.Content) > s.rowLimit:
		return blobTrouble(err)
	default:
		req.Displaced = true // and stays in its row
	}
	return nil
}

// contentKey names the content of a completion by task, lease and digest, so that a
// retry finds what an earlier try uploaded. The day is in it so that nothing is ever
// uploaded under a key that maintenance.Orphans may take for forgotten: it looks only at
// what is older than a day and some hours.
func contentKey(req bloom.CompleteRequest, now time.Time) string {
	lease := cmp.Or(req.Completion.LeaseID, "active")
	return "artifacts/" + req.TaskID + "/" + lease + "-" + req.SHA256 + "-" + now.UTC().Format("20060102")
}

// blobTrouble is a failure of the blob store as a worker should see it: worth
// another try, for the outcome is still in its hands.
func blobTrouble(err error) error {
	var e *bloom.Error
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, bloom.ErrContentMismatch):
		return bloom.Invalid("The content is not what was announced", bloom.FieldError{Field: "sha256", Message: "must be the digest of the whole body"})
	}
	return &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable,
		Message: "The artifact store does not answer; try again shortly", Cause: err}
}

// refusedCompletion clears up after a completion that the store did not take.
// An error that is not ours leaves the outcome open: the row may be there, so
// its content has to stay. What is orphaned then is swept later.
func (s *Service) refusedCompletion(ctx context.Context, req bloom.CompleteRequest, refusal error) {
	var e *bloom.Error
	if !errors.As(refusal, &e) || e.Kind == bloom.KindInternal || e.Kind == bloom.KindUnavailable {
		return
	}
	// Another refusal leaves the upload to maintenance.Orphans: the outcome that was taken
	// may have the same content under the same key.
	switch {
	case errors.Is(refusal, bloom.ErrLeaseLost) && req.Completion.LeaseID != "":
		s.takeBack(ctx, req, nil)
	case errors.Is(refusal, bloom.ErrOtherOutcome) && req.URL != nil && !s.named(ctx, req.TaskID, *req.URL):
		s.takeBack(ctx, req, nil)
	}
	s.refusedStale(ctx, req.TaskID, req.Completion.LeaseID, req.Actor, refusal)
}

// named reports whether an artifact of the task names the content, or may.
func (s *Service) named(ctx context.Context, taskID, url string) bool {
	list, next, err := s.store.Artifacts(ctx, bloom.ArtifactQuery{TaskID: taskID, Page: bloom.Page{Limit: bloom.MaxPageSize, TextBytes: 1}})
	return err != nil || next != (bloom.Cursor{}) || slices.ContainsFunc(list, func(a bloom.Artifact) bool { return a.URL != nil && *a.URL == url })
}

// takeBack deletes what was uploaded for req, unless it lies at kept. The caller
// may be gone by now; the clearing up is still due.
func (s *Service) takeBack(ctx context.Context, req bloom.CompleteRequest, kept *string) {
	if req.URL == nil || (kept != nil && *kept == *req.URL) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.blobs.Delete(ctx, *req.URL); err != nil {
		s.log.WarnContext(ctx, "an orphaned upload could not be deleted and waits for the sweep", "url", *req.URL, "error", err)
	}
}

// CheckCompletable refuses early, before a long completion is read, what Complete
// would refuse in any case: a task that does not exist, and a lease that it never
// had. Without a leaseID only the task is looked for.
func (s *Service) CheckCompletable(ctx context.Context, taskID, leaseID, actor string) error {
	_, err := s.leaseOf(ctx, taskID, leaseID)
	s.refusedStale(ctx, taskID, leaseID, actor, err)
	return err
}

// CheckActive is ErrLeaseLost unless the lease is active.
func (s *Service) CheckActive(ctx context.Context, taskID, leaseID string) error {
	lease, err := s.leaseOf(ctx, taskID, leaseID)
	if err == nil && lease.Status != bloom.LeaseActive {
		return bloom.ErrLeaseLost
	}
	return err
}

// Holder is the worker that a lease of a task was given to.
func (s *Service) Holder(ctx context.Context, taskID, leaseID string) (string, error) {
	lease, err := s.leaseOf(ctx, taskID, leaseID)
	return lease.WorkerID, err
}

// leaseOf is a lease of a task: ErrTaskNotFound, ErrLeaseLost, or the zero Lease when
// leaseID is empty.
func (s *Service) leaseOf(ctx context.Context, taskID, leaseID string) (bloom.Lease, error) {
	if leaseID == "" || !isID(taskID) {
		_, err := s.Task(ctx, taskID)
		return bloom.Lease{}, err
	}
	lease, err := bloom.Lease{}, error(bloom.ErrLeaseLost)
	if isID(leaseID) {
		lease, err = s.store.Lease(ctx, taskID, leaseID)
	}
	if errors.Is(err, bloom.ErrLeaseLost) {
		if _, missing := s.Task(ctx, taskID); missing != nil {
			return lease, missing
		}
	}
	return lease, err
}
