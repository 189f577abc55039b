// Package content keeps the bytes of artifacts: in their rows, in a folder or in object storage.
package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Objects is an object storage as it is needed beyond blob.Blobs.
type Objects interface {
	// State returns its state, without a request.
	State() bloom.BlobState
	// Placed reports whether url is in the object storage.
	Placed(url string) bool
	// PutFile is Put for content that is too large for a row.
	PutFile(ctx context.Context, key string, content io.Reader, size int64, sha256 string) (url string, err error)
	// Link returns a URL from which anybody can read the content for the time valid; ""
	// if the content is not in object storage.
	Link(ctx context.Context, url string, valid time.Duration, mediaType, name string) (string, error)
}

// Sweeper works on the content of all artifacts.
type Sweeper interface {
	Move(ctx context.Context, all bool, report func(bloom.MoveReport)) (bloom.MoveReport, error)
	Verify(ctx context.Context, report func(bloom.VerifyReport, *bloom.ContentDefect)) (bloom.VerifyReport, error)
}

// Store writes and reads content. It is safe for concurrent use.
type Store struct {
	Rows  contract.Store
	Blobs blob.Blobs
	// Objects is the object storage in which Blobs stores all content, not only content
	// longer than contract.InlineContentLimit. Nil: there is none.
	Objects Objects
	Sweeper Sweeper // nil: not supported
	// BlobState returns the state of Blobs if there are no Objects; nil: always healthy.
	BlobState func() bloom.BlobState
	// RowLimit is the longest content that may stay in its row while the object storage
	// is unavailable and Blobs has no other place, in bytes.
	RowLimit int
}

// Trouble returns a failure of the blob store as an error that workers retry:
// they still have the outcome.
func Trouble(err error) error {
	var e *bloom.Error
	switch {
	case err == nil, errors.As(err, &e):
		return err
	case errors.Is(err, blob.ErrMismatch):
		return bloom.Invalid("The content does not match the announced size or digest", bloom.FieldError{Field: "sha256", Message: "must be the digest of the whole body"})
	}
	return &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable,
		Message: "The artifact store does not answer; try again shortly", Cause: err}
}

// PutText stores a text outside its row if it is too long for it; url is nil if it stays there.
func (s *Store) PutText(ctx context.Context, key, text, sum string) (url *string, displaced bool, err error) {
	if s.Objects == nil && len(text) <= contract.InlineContentLimit {
		return nil, false, nil
	}
	at, err := s.Blobs.Put(ctx, key, strings.NewReader(text), int64(len(text)), sum)
	switch {
	case err == nil:
		return &at, s.displaced(at), nil
	case !errors.Is(err, blob.ErrUnavailable) || len(text) > s.RowLimit:
		return nil, false, Trouble(err)
	}
	return nil, true, nil // it stays in its row until the storage is available
}

// Put stores content that is too large for a row, even while the object storage is unavailable.
func (s *Store) Put(ctx context.Context, key string, content io.Reader, size int64, sum string) (url string, displaced bool, err error) {
	put := s.Blobs.Put
	if s.Objects != nil {
		put = s.Objects.PutFile
	}
	url, err = put(ctx, key, content, size, sum)
	return url, err == nil && s.displaced(url), Trouble(err)
}

// displaced reports whether content is to be moved to the object storage later.
func (s *Store) displaced(url string) bool { return s.Objects != nil && !s.Objects.Placed(url) }

// Open opens the content of an artifact; the caller closes it. The last Read fails if the content
// is not what was recorded.
func (s *Store) Open(ctx context.Context, a bloom.Artifact) (io.ReadCloser, error) {
	if a.URL == nil {
		return s.OpenRange(ctx, a, 0, -1)
	}
	content, err := s.Blobs.Open(ctx, *a.URL)
	if err != nil {
		return nil, Trouble(err)
	}
	return &verified{ReadCloser: content, hash: sha256.New(), size: a.Size, sum: a.SHA256}, nil
}

// OpenRange opens a part of an artifact's content, as blob.Blobs does. It does not
// verify the digest.
func (s *Store) OpenRange(ctx context.Context, a bloom.Artifact, offset, length int64) (io.ReadCloser, error) {
	if a.URL != nil {
		content, err := s.Blobs.OpenRange(ctx, *a.URL, offset, length)
		if err != nil {
			return nil, Trouble(err)
		}
		return content, nil
	}
	var text string
	if a.Content != nil {
		text = *a.Content
	}
	if length < 0 {
		length = int64(len(text)) - offset
	}
	return io.NopCloser(io.NewSectionReader(strings.NewReader(text), offset, length)), nil
}

// Read implements contract.ReadContent.
func (s *Store) Read(ctx context.Context, url string, most int) (string, error) {
	content, err := s.Blobs.OpenRange(ctx, url, 0, int64(most))
	if err != nil {
		return "", err
	}
	return readText(content, most, 0)
}

// readText reads and closes a text; most limits it, in bytes. size is that of the text, or 0.
func readText(content io.ReadCloser, most int, size int64) (string, error) {
	defer content.Close()
	var b strings.Builder
	b.Grow(int(min(size, int64(most))))
	_, err := io.Copy(&b, io.LimitReader(content, int64(most)))
	return strings.ToValidUTF8(b.String(), ""), err // the last character may be incomplete
}

// LinkValid is how long a link to content works.
const LinkValid = 15 * time.Minute

// Link returns a URL of the content in object storage that needs no key and
// works for LinkValid; "" if the content is elsewhere.
func (s *Store) Link(ctx context.Context, a bloom.Artifact) (string, error) {
	if s.Objects == nil || a.URL == nil {
		return "", nil
	}
	link, err := s.Objects.Link(ctx, *a.URL, LinkValid, a.MediaType, a.FileName())
	return link, Trouble(err)
}

// Move moves the content of all artifacts to the object storage and reports the progress.
func (s *Store) Move(ctx context.Context, actor string, report func(bloom.ContentLine)) error {
	if s.Sweeper == nil || s.Objects == nil {
		return bloom.Conflict("No object storage is configured to move artifacts to")
	}
	result, err := s.Sweeper.Move(ctx, true, func(r bloom.MoveReport) { report(bloom.ContentLine{Moved: &r}) })
	err = errors.Join(err, s.Rows.AppendAudit(context.WithoutCancel(ctx), bloom.Audit{
		Action: audit.ActionArtifactsMoved, EntityType: audit.EntityArtifact, EntityID: "all", Actor: actor,
		Detail: fmt.Sprintf("Moved the content of %d artifacts to the object storage", result.Moved), Data: storable.MustJSON(result),
	}))
	if err == nil || result != (bloom.MoveReport{}) {
		report(bloom.ContentLine{Moved: &result, Done: err == nil})
	}
	return err
}

// Verify reads the content of all artifacts and reports the progress and every defect.
func (s *Store) Verify(ctx context.Context, report func(bloom.ContentLine)) error {
	if s.Sweeper == nil {
		return bloom.Conflict("This server does not verify artifacts")
	}
	result, err := s.Sweeper.Verify(ctx, func(r bloom.VerifyReport, d *bloom.ContentDefect) { report(bloom.ContentLine{Verified: &r, Defect: d}) })
	if err == nil {
		report(bloom.ContentLine{Verified: &result, Done: true})
	}
	return err
}

// State returns the state of the artifact storage.
func (s *Store) State() bloom.BlobState {
	switch {
	case s.Objects != nil:
		return s.Objects.State()
	case s.BlobState != nil:
		return s.BlobState()
	}
	return bloom.BlobState{Kind: bloom.BlobsLocal, Connected: true, Can: []string{"write", "read", "delete"}}
}

// Waiting returns how many artifacts and contexts wait to be moved to the
// object storage, up to contract.MaxWaiting; 0 if there is none.
func (s *Store) Waiting(ctx context.Context) (int64, error) {
	if s.Objects == nil {
		return 0, nil
	}
	return s.Rows.WaitingContent(ctx)
}

// verified checks content against its recorded size and digest while it is read.
type verified struct {
	io.ReadCloser
	hash hash.Hash
	read int64
	size int64
	sum  string
}

var errAltered = errors.New("the stored content is not what was recorded")

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	v.read += int64(n)
	switch {
	case v.read > v.size:
		return 0, errAltered
	case errors.Is(err, io.EOF) && (v.read != v.size || hex.EncodeToString(v.hash.Sum(nil)) != v.sum):
		return n, errAltered
	}
	return n, err
}

// leastOutput is the shortest length to which an output is truncated.
const leastOutput = 1 << 10

// Results lists a task's results, newest first, with the first bytes of their outputs: at most
// "most" of the newest, and of all others together.
func (s *Store) Results(ctx context.Context, taskID string, most int) ([]bloom.Result, error) {
	if _, err := s.Rows.Task(ctx, taskID); err != nil {
		return nil, err
	}
	results, err := s.Rows.Results(ctx, taskID)
	left := most
	for i := 0; err == nil && i < len(results); i++ {
		r := &results[i]
		if n := max(left, leastOutput); r.Output == nil {
			err = s.readOutput(ctx, r, n)
		} else {
			contract.CutOutput(r, n)
		}
		if r.Output != nil && i > 0 {
			left -= len(*r.Output)
		}
	}
	return results, err
}

// readOutput sets the output of a result from its artifact, truncated to most bytes.
func (s *Store) readOutput(ctx context.Context, r *bloom.Result, most int) error {
	a, err := s.Rows.Artifact(ctx, r.ArtifactID)
	if err != nil || (a.URL == nil && a.Content == nil) {
		return err
	}
	content, err := s.Open(ctx, a)
	if err != nil {
		return err
	}
	text, err := readText(content, most+1, a.Size) // with the end of content that fits, which is verified
	if err != nil {
		return bloom.Internal(fmt.Errorf("read artifact %s: %w", a.ID, err))
	}
	r.Output = &text
	contract.CutOutput(r, most)
	r.OutputTruncated = a.Size > int64(most)
	return nil
}
