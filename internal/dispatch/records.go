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

	"github.com/bloom-runtime/bloom"
)

// Results lists a task's results, newest first, with their output wherever it
// lies.
func (s *Service) Results(ctx context.Context, taskID string) ([]bloom.Result, error) {
	if _, err := s.Task(ctx, taskID); err != nil {
		return nil, err
	}
	results, err := s.store.Results(ctx, taskID)
	if err != nil {
		return nil, err
	}
	for i := range results {
		if results[i].Output == nil {
			if results[i].Output, err = s.placedOutput(ctx, results[i].ArtifactID); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// placedOutput is the content of an artifact that lies in the blob store, nil
// when it has none.
func (s *Service) placedOutput(ctx context.Context, artifactID string) (*string, error) {
	a, err := s.store.Artifact(ctx, artifactID)
	if err != nil || a.URL == nil {
		return nil, err
	}
	content, err := s.openContent(ctx, a)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	var b strings.Builder
	b.Grow(int(a.Size))
	if _, err := io.Copy(&b, content); err != nil {
		return nil, bloom.Internal(fmt.Errorf("read artifact %s: %w", a.ID, err))
	}
	out := b.String()
	return &out, nil
}

// Artifact is one artifact.
func (s *Service) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	if !isID(id) {
		return bloom.Artifact{}, bloom.NotFound("Artifact")
	}
	return s.store.Artifact(ctx, id)
}

// Artifacts lists artifacts, newest first.
func (s *Service) Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error) {
	return s.store.Artifacts(ctx, q)
}

// ArtifactContent opens the bytes of an artifact; the caller closes them. A
// read fails at the end when they are not the bytes that were recorded.
func (s *Service) ArtifactContent(ctx context.Context, id string) (bloom.Artifact, io.ReadCloser, error) {
	a, err := s.Artifact(ctx, id)
	if err != nil {
		return bloom.Artifact{}, nil, err
	}
	content, err := s.openContent(ctx, a)
	return a, content, err
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

// verified reads content and holds it against its recorded size and digest.
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

// Audit lists audit entries, newest first.
func (s *Service) Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error) {
	return s.store.Audit(ctx, q)
}
