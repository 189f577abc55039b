package dispatch

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
)

// errNotTheLeases refuses parts that were not uploaded under the lease.
var errNotTheLeases = bloom.Invalid("The transcript's parts are not this lease's", bloom.FieldError{Field: "transcript.parts", Message: "must be what the uploads under this lease answered"})

// partPrefix begins the keys of what a lease uploads.
func partPrefix(contextID, leaseID string) string {
	return "transcripts/" + bloom.TranscriptFolder(contextID) + "/" + leaseID + "-"
}

// checkPart refuses a part that no upload under the lease was answered with, and, when
// there is to be one, a part that is not there.
func (s *Service) checkPart(ctx context.Context, p bloom.TranscriptPart, prefix string, there bool) error {
	key, ours := partKey(p.URL, prefix)
	if p.Size <= 0 || p.Size > bloom.MaxTranscriptPart || !ours {
		return errNotTheLeases
	}
	// Only now: a storage may take being asked for what is no key for a failure of its
	// own, and counts as away then, for everybody.
	at, size, err := s.blobs.Stat(ctx, p.URL)
	if at != key {
		return errNotTheLeases
	}
	switch {
	case !there:
		return nil
	case bloom.KindOf(err) == bloom.KindNotFound || err == nil && size != p.Size:
		return errNotTheLeases
	case err != nil && !errors.Is(err, bloom.ErrBlobsUnavailable): // a storage that is away holds up no outcome
		return blobTrouble(err)
	}
	return nil
}

// partKey is the key of a part of a lease's, by the URL that its upload was answered
// with: SCHEME:KEY or SCHEME://BUCKET/KEY.
func partKey(url, prefix string) (key string, ours bool) {
	const digest = 64
	if len(url) < len(prefix)+digest {
		return "", false
	}
	before, key := url[:len(url)-len(prefix)-digest], url[len(url)-len(prefix)-digest:]
	raw, err := hex.DecodeString(key[len(prefix):])
	_, bucket, _ := strings.Cut(before, "://")
	place := strings.HasSuffix(before, ":") || bucket != "" && strings.Index(bucket, "/") == len(bucket)-1
	return key, err == nil && len(raw) == digest/2 && key[:len(prefix)] == prefix && place
}

// held is a task of the lease's that is active.
func (s *Service) held(ctx context.Context, taskID, leaseID string) (bloom.Task, error) {
	if leaseID == "" {
		return bloom.Task{}, bloom.ErrLeaseLost
	}
	if err := s.CheckActive(ctx, taskID, leaseID); err != nil {
		return bloom.Task{}, err
	}
	return s.Task(ctx, taskID)
}

// PutTranscriptPart stores a part of what a turn has added to its context's
// transcript, or made of its working folder. It counts once a completion under the same lease names it; what none
// names is swept later.
func (s *Service) PutTranscriptPart(ctx context.Context, taskID, leaseID string, content io.Reader, size int64, sum string) (bloom.TranscriptPart, error) {
	task, err := s.held(ctx, taskID, leaseID)
	if err != nil {
		return bloom.TranscriptPart{}, err
	}
	sum = strings.ToLower(sum)
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != 32 {
		return bloom.TranscriptPart{}, bloom.Invalid("The part's digest is wrong", bloom.FieldError{Field: "sha256", Message: "must be the SHA-256 of the body in hex"})
	}
	url, err := s.putLarge(ctx, partPrefix(task.ContextID, leaseID)+sum, content, size, sum)
	if err != nil {
		return bloom.TranscriptPart{}, err
	}
	return bloom.TranscriptPart{URL: url, Size: size}, nil
}

// Transcript says what there is of the context of a task that is held, and opens the
// transcript's parts, one after the other, when open is true. The caller closes them.
func (s *Service) Transcript(ctx context.Context, taskID, leaseID string, open bool) (st bloom.TranscriptState, content io.ReadCloser, err error) {
	task, err := s.held(ctx, taskID, leaseID)
	if err != nil {
		return st, nil, err
	}
	t, err := s.store.Transcript(ctx, task.ContextID)
	if err != nil {
		return st, nil, err
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
	st = bloom.TranscriptState{SessionID: t.SessionID, Size: t.Size, SHA256: t.SHA256, Parts: len(t.Parts)}
	if open {
		content, err = s.openParts(ctx, t.Parts)
	}
	return st, content, err
}

// Workspace says what there is of the working folder of a held task's context, and opens
// the snapshot when open is true. The caller closes it.
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
	st = bloom.WorkspaceState{Size: t.Workspace.Size, SHA256: t.Workspace.SHA256}
	if open {
		content, err = s.openParts(ctx, t.Workspace.Parts)
	}
	return st, content, err
}

// openParts opens parts, the first of them at once: so the caller can be answered that they
// are not there, or that their storage is away.
func (s *Service) openParts(ctx context.Context, list []bloom.TranscriptPart) (io.ReadCloser, error) {
	p := &parts{ctx: ctx, blobs: s.blobs, left: list}
	if len(list) == 0 {
		return p, nil
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	return p, nil
}

// parts reads one part after the other.
type parts struct {
	ctx   context.Context //nolint:containedctx // of the answer that is being sent
	blobs bloom.Blobs
	left  []bloom.TranscriptPart
	now   io.ReadCloser
}

func (p *parts) Read(b []byte) (int, error) {
	for {
		if p.now == nil {
			if len(p.left) == 0 {
				return 0, io.EOF
			}
			if err := p.next(); err != nil {
				return 0, err
			}
		}
		n, err := p.now.Read(b)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := p.Close(); err != nil || n > 0 {
			return n, err
		}
	}
}

// next opens the next part.
func (p *parts) next() error {
	content, err := p.blobs.Open(p.ctx, p.left[0].URL)
	if err != nil {
		return blobTrouble(err)
	}
	p.now, p.left = content, p.left[1:]
	return nil
}

func (p *parts) Close() error {
	if p.now == nil {
		return nil
	}
	err := p.now.Close()
	p.now = nil
	return err
}

// Bounds of what is said of a context's earlier tasks.
const (
	earlierTasks = 8
	earlierBytes = 4 << 10
)

// Earlier are the last completed tasks of a held task's context, the oldest first, for
// a worker that cannot have the transcript.
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
			continue // of a context that was forgotten
		}
		results, err := s.Results(ctx, tasks[i].ID)
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

// checkTranscript refuses an update whose parts were not uploaded under its lease, and
// completes the request with the context that it changes.
func (s *Service) checkTranscript(ctx context.Context, req *bloom.CompleteRequest) error {
	c := req.Completion
	if c.Transcript == nil && c.Workspace == nil {
		return nil
	}
	task, err := s.Task(ctx, req.TaskID)
	if err != nil {
		return err
	}
	req.ContextID = task.ContextID
	if s.sweptSince(c.LeaseID) {
		s.log.WarnContext(ctx, "a turn comes too late for its context: what was uploaded for it may be swept", "task_id", req.TaskID, "context_id", task.ContextID)
		req.Late = true
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
	// A repeated completion may name parts that have been replaced since.
	there := s.CheckActive(ctx, req.TaskID, c.LeaseID) == nil
	for _, p := range parts {
		if err := s.checkPart(ctx, p, prefix, there); err != nil {
			return err
		}
	}
	return nil
}

// partsFor is how long after its making a lease's uploads may be named. They are swept
// when they are older than that: see maintenance.OrphanAge.
const partsFor = 24 * time.Hour

// sweptSince reports whether uploads under the lease may be old enough to be swept.
func (s *Service) sweptSince(leaseID string) bool {
	id, err := uuid.Parse(leaseID)
	if err != nil || id.Version() != 7 {
		return false
	}
	sec, nsec := id.Time().UnixTime()
	return s.clock.Now().Sub(time.Unix(sec, nsec)) > partsFor
}

// ForgetContext forgets a context everywhere: here at once, on workers with their next
// claims.
func (s *Service) ForgetContext(ctx context.Context, id, actor string) error {
	return s.store.ForgetContext(ctx, bloom.CleanText(id), actor)
}

// forgottenFor is how long the number of the last forgotten context is believed.
const forgottenFor = 2 * time.Second

// forgotten remembers the number of the last forgotten context, so that not every
// claim asks for it.
type forgotten struct {
	mu   sync.Mutex
	last int64
	at   time.Time
}

// Forgotten lists contexts that were forgotten after the given number, oldest first, a
// page at most. One that was forgotten a moment ago may be missing.
func (s *Service) Forgotten(ctx context.Context, after int64) ([]bloom.ForgottenContext, error) {
	f := &s.forgot
	f.mu.Lock()
	defer f.mu.Unlock()
	now := s.clock.Now()
	if after >= f.last && now.Sub(f.at) < forgottenFor {
		return nil, nil
	}
	list, err := s.store.Forgotten(ctx, after, bloom.DefaultPageSize)
	if err == nil && len(list) < bloom.DefaultPageSize {
		f.at = now
	}
	for _, x := range list {
		f.last = max(f.last, x.Seq)
	}
	return list, err
}
