// Package s3 keeps artifact content in a bucket of an S3-compatible object storage.
// A URL is "minio://bucket/key", the form that the wire contract names.
package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/objects"
)

const mediaType = "application/octet-stream"

// Store is a bloom.Blobs in a bucket. It is safe for concurrent use.
type Store struct {
	bucket *objects.Bucket
	prefix string // of every URL
}

var _ bloom.Blobs = (*Store)(nil)

// New keeps content in bucket, which has to be there: objects.Bucket.Probe sees to it.
func New(bucket *objects.Bucket) *Store {
	return &Store{bucket: bucket, prefix: "minio://" + bucket.Name() + "/"}
}

// Put uploads content under key. The storage shows an object only when it is whole,
// and content that turns out not to be what was announced fails the upload before
// its last byte, so a key never holds part of something or something else.
func (s *Store) Put(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	if err := bloom.CheckBlobKey(key); err != nil {
		return "", err
	}
	verified := &verifier{content: content, hash: sha256.New(), left: size, sum: sum}
	var body io.Reader = verified
	if size == 0 { // nothing would be read of it
		if err := verified.end(); err != nil {
			return "", err
		}
		body = strings.NewReader("")
	}
	if _, err := s.bucket.Upload(ctx, key, body, size, mediaType); err != nil {
		return "", fmt.Errorf("upload %s: %w", key, errors.Join(verified.err, err))
	}
	return s.prefix + key, nil
}

// Open streams what lies at url.
func (s *Store) Open(ctx context.Context, url string) (io.ReadCloser, error) {
	key, err := s.keyOf(url)
	if err != nil {
		return nil, err
	}
	r, _, err := s.bucket.Open(ctx, key)
	if errors.Is(err, objects.ErrNotFound) {
		return nil, bloom.NotFound("Artifact content")
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", url, err)
	}
	return r, nil
}

// Delete removes what lies at url.
func (s *Store) Delete(ctx context.Context, url string) error {
	key, err := s.keyOf(url)
	if err != nil {
		return err
	}
	return s.bucket.Remove(ctx, key)
}

func (s *Store) keyOf(url string) (string, error) {
	key, ok := strings.CutPrefix(url, s.prefix)
	if !ok {
		return "", fmt.Errorf("bucket %s has no %q", s.bucket.Name(), url)
	}
	return key, bloom.CheckBlobKey(key)
}

// verifier fails a read at the end of content that is not what was announced. Its
// last byte is held back until the digest is known: an upload that has all of its
// bytes would be complete.
type verifier struct {
	content io.Reader
	hash    hash.Hash
	left    int64 // bytes still to come
	sum     string
	err     error
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	if v.left == 0 {
		return 0, io.EOF
	}
	n, err := v.content.Read(p[:min(int64(len(p)), v.left)])
	v.hash.Write(p[:n])
	v.left -= int64(n)
	switch {
	case v.left == 0:
		v.err = v.end()
	case errors.Is(err, io.EOF):
		v.err = errors.New("content is shorter than announced")
	default:
		v.err = err
	}
	if v.err != nil {
		return 0, v.err
	}
	return n, nil
}

// end checks that nothing follows and that the digest is right.
func (v *verifier) end() error {
	if n, _ := io.ReadFull(v.content, make([]byte, 1)); n > 0 {
		return errors.New("content is longer than announced")
	}
	if !strings.EqualFold(hex.EncodeToString(v.hash.Sum(nil)), v.sum) {
		return errors.New("content has another digest than announced")
	}
	return nil
}
