package dispatch

import (
	"bytes"
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
)

// readOutput returns the content of an artifact, nil if it has none. Content longer
// than most bytes is truncated, and cut is true.
func (s *Service) readOutput(ctx context.Context, artifactID string, most int) (out *string, cut bool, err error) {
	a, err := s.store.Artifact(ctx, artifactID)
	if err != nil || (a.URL == nil && a.Content == nil) {
		return nil, false, err
	}
	content, err := s.openContent(ctx, a)
	if err != nil {
		return nil, false, err
	}
	defer content.Close()
	cut = a.Size > int64(most)
	var b strings.Builder
	b.Grow(int(min(a.Size, int64(most))))
	var from io.Reader = content
	if cut {
		from = io.LimitReader(content, int64(most))
	}
	if _, err := io.Copy(&b, from); err != nil {
		return nil, false, bloom.Internal(fmt.Errorf("read artifact %s: %w", a.ID, err))
	}
	text := b.String()
	if cut {
		text = strings.ToValidUTF8(text, "") // the last character may be incomplete
	}
	return &text, cut, nil
}

// ArtifactContent opens the content of an artifact; the caller closes it. The last
// Read fails if the content is not what was recorded.
func (s *Service) ArtifactContent(ctx context.Context, id string) (bloom.Artifact, io.ReadCloser, error) {
	a, err := s.store.Artifact(ctx, id)
	if err != nil {
		return bloom.Artifact{}, nil, err
	}
	content, err := s.openContent(ctx, a)
	return a, content, err
}

// OpenRange opens a part of an artifact's content, as bloom.Blobs does. It does not
// verify the digest.
func (s *Service) OpenRange(ctx context.Context, a bloom.Artifact, offset, length int64) (io.ReadCloser, error) {
	if a.URL != nil {
		content, err := s.blobs.OpenRange(ctx, *a.URL, offset, length)
		if err != nil {
			return nil, blobTrouble(err)
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

// LinkValid is how long a link to content works.
const LinkValid = 15 * time.Minute

// ContentLink returns a URL of the content in object storage that needs no key and
// works for LinkValid; "" if the content is elsewhere.
func (s *Service) ContentLink(ctx context.Context, a bloom.Artifact) (string, error) {
	if s.objects == nil || a.URL == nil {
		return "", nil
	}
	link, err := s.objects.Link(ctx, *a.URL, LinkValid, a.MediaType, a.FileName())
	if err != nil {
		return "", blobTrouble(err)
	}
	return link, nil
}

// MoveContents moves the content of all artifacts to the object storage and reports the
// progress.
func (s *Service) MoveContents(ctx context.Context, actor string, report func(bloom.ContentLine)) error {
	if s.contents == nil || s.objects == nil {
		return bloom.Conflict("No object storage is configured to move artifacts to")
	}
	result, err := s.contents.Move(ctx, true, func(r bloom.MoveReport) { report(bloom.ContentLine{Moved: &r}) })
	err = errors.Join(err, s.store.AppendAudit(context.WithoutCancel(ctx), bloom.Audit{
		Action: bloom.ActionArtifactsMoved, EntityType: bloom.EntityArtifact, EntityID: "all", Actor: actor,
		Detail: fmt.Sprintf("Moved the content of %d artifacts to the object storage", result.Moved), Data: bloom.MustJSON(result),
	}))
	if err == nil || result != (bloom.MoveReport{}) {
		report(bloom.ContentLine{Moved: &result, Done: err == nil})
	}
	return err
}

// VerifyContents reads the content of all artifacts and reports the progress and every
// defect.
func (s *Service) VerifyContents(ctx context.Context, report func(bloom.ContentLine)) error {
	if s.contents == nil {
		return bloom.Conflict("This server does not verify artifacts")
	}
	result, err := s.contents.Verify(ctx, func(r bloom.VerifyReport, d *bloom.ContentDefect) { report(bloom.ContentLine{Verified: &r, Defect: d}) })
	if err == nil {
		report(bloom.ContentLine{Verified: &result, Done: true})
	}
	return err
}

// Blobs returns the state of the artifact storage.
func (s *Service) Blobs() bloom.BlobState {
	switch {
	case s.objects != nil:
		return s.objects.State()
	case s.state != nil:
		return s.state()
	}
	return bloom.BlobState{Kind: bloom.BlobsLocal, Connected: true, Can: []string{"write", "read", "delete"}}
}

// WaitingContent returns how many artifacts and contexts wait to be moved to the
// object storage, up to bloom.MaxWaiting; 0 if there is none.
func (s *Service) WaitingContent(ctx context.Context) (int64, error) {
	if s.objects == nil {
		return 0, nil
	}
	return s.store.WaitingContent(ctx)
}

func (s *Service) openContent(ctx context.Context, a bloom.Artifact) (io.ReadCloser, error) {
	if a.URL == nil {
		var text []byte
		if a.Content != nil {
			text = []byte(*a.Content)
		}
		return io.NopCloser(bytes.NewReader(text)), nil
	}
	content, err := s.blobs.Open(ctx, *a.URL)
	if err != nil {
		return nil, blobTrouble(err)
	}
	return &verified{ReadCloser: content, hash: sha256.New(), size: a.Size, sum: a.SHA256}, nil
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
