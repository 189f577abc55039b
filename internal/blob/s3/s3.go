// Package s3 stores artifact content in a bucket of an S3-compatible object storage. A URL is
// "minio://bucket/key", as the wire contract requires.
package s3

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// abandonedAfter is the age after which an unfinished upload counts as abandoned: no upload takes
// as long.
const abandonedAfter = 30 * time.Hour

const mediaType = "application/octet-stream"

// Store is a blob.Blobs in a bucket. It is safe for concurrent use.
type Store struct {
	bucket *objects.Bucket
	area   blob.Area
	prefix string // of each URL
}

var _ blob.Blobs = (*Store)(nil)

// New returns a store in an area of the bucket, which must exist: see objects.Bucket.Check.
func New(bucket *objects.Bucket, area blob.Area) *Store {
	return &Store{bucket: bucket, area: area, prefix: Scheme + bucket.Name() + "/"}
}

// Scheme is the prefix of every URL that Put returns.
const Scheme = "minio://"

// Put uploads content to key. The storage shows an object only when it is complete, and content
// with another size or digest fails the upload before its last byte, so a key never has partial or
// wrong content.
func (s *Store) Put(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	if err := blob.CheckKey(key); err != nil {
		return "", err
	}
	key = s.area.Place(key)
	verified := &verifier{content: content, hash: sha256.New(), left: size, sum: sum}
	var body io.Reader = verified
	if size == 0 { // the client would not read it
		if err := verified.end(); err != nil {
			return "", err
		}
		body = strings.NewReader("")
	}
	if _, err := s.bucket.Upload(ctx, key, body, size, mediaType); err != nil {
		if verified.err != nil && !errors.Is(verified.err, io.EOF) {
			return "", fmt.Errorf("upload %s: %w", key, errors.Join(verified.err, err))
		}
		return "", fmt.Errorf("%w: upload %s: %w", blob.ErrUnavailable, key, err)
	}
	return s.prefix + key, nil
}

// Reach reports whether the storage answers.
func (s *Store) Reach(ctx context.Context) error { return s.bucket.Reach(ctx) }

// Open streams the content at url.
func (s *Store) Open(ctx context.Context, url string) (io.ReadCloser, error) {
	bucket, key, err := s.find(url)
	if err != nil {
		return nil, err
	}
	r, _, err := bucket.Open(ctx, key)
	return s.opened(url, r, err)
}

// Key returns the key of a URL that Put returned, "" for any other URL.
func (s *Store) Key(url string) string {
	place, ours := strings.CutPrefix(url, s.prefix)
	if !ours || blob.CheckKey(place) != nil {
		return ""
	}
	return s.area.Key(place)
}

// Stat returns the key and the size of the content at url in the store's own bucket.
func (s *Store) Stat(ctx context.Context, url string) (string, int64, error) {
	key := s.Key(url)
	if key == "" {
		return "", 0, bloom.NotFound("Artifact content")
	}
	info, err := s.bucket.Stat(ctx, strings.TrimPrefix(url, s.prefix))
	switch {
	case errors.Is(err, objects.ErrNotFound):
		return key, 0, bloom.NotFound("Artifact content")
	case err != nil:
		return key, 0, fmt.Errorf("%w: stat %s: %w", blob.ErrUnavailable, url, err)
	}
	return key, info.Size, nil
}

// OpenRange streams a part of the content at url.
func (s *Store) OpenRange(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	bucket, key, err := s.find(url)
	switch {
	case err != nil:
		return nil, err
	case length == 0: // not expressible as a range
		return io.NopCloser(strings.NewReader("")), nil
	case offset == 0 && length < 0:
		return s.Open(ctx, url)
	}
	r, err := bucket.OpenRange(ctx, key, offset, length)
	return s.opened(url, r, err)
}

func (s *Store) opened(url string, r io.ReadCloser, err error) (io.ReadCloser, error) {
	if errors.Is(err, objects.ErrNotFound) {
		return nil, bloom.NotFound("Artifact content")
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", url, err)
	}
	return r, nil
}

// Link returns a URL at which anyone can read the content for the duration valid.
func (s *Store) Link(ctx context.Context, url string, valid time.Duration, mediaType, name string) (string, error) {
	bucket, key, err := s.find(url)
	if err != nil {
		return "", err
	}
	return bucket.Link(ctx, key, valid, mediaType, name)
}

// Delete removes the content at url.
func (s *Store) Delete(ctx context.Context, url string) error {
	bucket, key, err := s.find(url)
	if err != nil {
		return err
	}
	return bucket.Remove(ctx, key)
}

// List lists the bucket's area and removes the parts of abandoned uploads. Ages are measured with the
// storage's own clock, so that new content is never considered old if that clock is wrong.
func (s *Store) List(ctx context.Context, day string, fn func(url, key string, age time.Duration) error) error {
	prefix := s.area.Prefix(day)
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	for object, err := range s.bucket.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("list bucket %s: %w", s.bucket.Name(), err)
		}
		if err := fn(s.prefix+object.Key, s.area.Key(object.Key), now.Sub(object.Modified)); err != nil {
			return err
		}
	}
	return s.bucket.AbortUploads(ctx, prefix, now.Add(-abandonedAfter))
}

// now returns the time of the storage's clock.
func (s *Store) now(ctx context.Context) (time.Time, error) {
	key := "probe/clock-" + rand.Text()
	if _, err := s.bucket.Upload(ctx, key, strings.NewReader(""), 0, mediaType); err != nil {
		return time.Time{}, fmt.Errorf("bucket %s: %w", s.bucket.Name(), err)
	}
	info, err := s.bucket.Stat(ctx, key)
	return info.Modified, errors.Join(err, s.bucket.Remove(ctx, key))
}

// markName is the name of the area's mark.
const markName = "mark"

// Mark returns the area's mark and its version, both empty if there is none.
func (s *Store) Mark(ctx context.Context) (mark, version string, err error) {
	text, info, err := s.bucket.Read(ctx, string(s.area)+markName)
	if errors.Is(err, objects.ErrNotFound) {
		return "", "", nil
	}
	return string(text), info.ETag, err
}

// SetMark replaces the mark of a version.
func (s *Store) SetMark(ctx context.Context, mark, version string) error {
	_, err := s.bucket.Swap(ctx, string(s.area)+markName, []byte(mark), version)
	return err
}

// MarkURL returns where the mark is.
func (s *Store) MarkURL() string { return s.prefix + string(s.area) + markName }

// find parses a URL. It may name another bucket that this server used before.
func (s *Store) find(url string) (*objects.Bucket, string, error) {
	rest, ours := strings.CutPrefix(url, Scheme)
	if !ours {
		rest, ours = strings.CutPrefix(url, "s3://")
	}
	name, key, found := strings.Cut(rest, "/")
	if !ours || !found || name == "" {
		return nil, "", fmt.Errorf("bucket %s has no %q", s.bucket.Name(), url)
	}
	if err := blob.CheckKey(key); err != nil {
		return nil, "", err
	}
	if name != s.bucket.Name() {
		return s.bucket.Sibling(name), key, nil
	}
	return s.bucket, key, nil
}

// verifier fails the last read if size or digest of the content are not as stated. It holds back
// the last byte until the digest is known, because an upload with all its bytes would be complete.
type verifier struct {
	content io.Reader
	hash    hash.Hash
	left    int64 // remaining bytes
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
		v.err = fmt.Errorf("%w: it is too short", blob.ErrMismatch)
	default:
		v.err = err
	}
	if v.err != nil {
		return 0, v.err
	}
	return n, nil
}

// end checks that nothing follows and that the digest is correct.
func (v *verifier) end() error {
	if n, _ := io.ReadFull(v.content, make([]byte, 1)); n > 0 {
		return fmt.Errorf("%w: it is too long", blob.ErrMismatch)
	}
	if !strings.EqualFold(hex.EncodeToString(v.hash.Sum(nil)), v.sum) {
		return fmt.Errorf("%w: its digest differs", blob.ErrMismatch)
	}
	return nil
}
