package tiered

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/blob/s3"
)

// storeOf returns the store that has url.
func (s *Store) storeOf(url string) blob.Blobs {
	switch {
	case strings.HasPrefix(url, local.Scheme):
		return s.local
	case strings.HasPrefix(url, s3.Scheme), s.shared == nil, strings.HasPrefix(url, "s3://"):
		return s.remote
	}
	return s.shared
}

// Open streams the content at url.
func (s *Store) Open(ctx context.Context, url string) (io.ReadCloser, error) {
	return s.get(url, func(b blob.Blobs) (io.ReadCloser, error) { return b.Open(ctx, url) })
}

// OpenRange streams a part of the content at url.
func (s *Store) OpenRange(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	return s.get(url, func(b blob.Blobs) (io.ReadCloser, error) { return b.OpenRange(ctx, url, offset, length) })
}

func (s *Store) get(url string, open func(blob.Blobs) (io.ReadCloser, error)) (io.ReadCloser, error) {
	from, began := s.storeOf(url), time.Now()
	content, err := open(from)
	if from == blob.Blobs(s.remote) {
		s.observe("get", time.Since(began), err)
	}
	return content, err
}

// Stat returns the key and the size of the content at url. It does not wait for an unavailable
// object storage.
func (s *Store) Stat(ctx context.Context, url string) (string, int64, error) {
	if store := s.storeOf(url); store != blob.Blobs(s.remote) {
		return store.Stat(ctx, url)
	}
	if key := s.failFast.Key(url); key != "" && s.Unavailable() {
		return key, 0, fmt.Errorf("%w: bucket %s", blob.ErrUnavailable, s.bucket.Name())
	}
	within, done := context.WithTimeout(ctx, s.stall)
	defer done()
	key, size, err := s.failFast.Stat(within, url)
	if errors.Is(err, blob.ErrUnavailable) && ctx.Err() == nil {
		s.mu.Lock()
		s.failed(ctx, err)
		s.mu.Unlock()
	}
	return key, size, err
}

// Link returns a public URL of the content at url for the duration valid, "" if the content is not
// in object storage.
func (s *Store) Link(ctx context.Context, url string, valid time.Duration, mediaType, name string) (string, error) {
	if s.storeOf(url) != blob.Blobs(s.remote) {
		return "", nil
	}
	return s.remote.Link(ctx, url, valid, mediaType, name)
}

// Delete removes the content at url.
func (s *Store) Delete(ctx context.Context, url string) error {
	store, began := s.storeOf(url), time.Now()
	err := store.Delete(ctx, url)
	if store == blob.Blobs(s.remote) {
		s.observe("delete", time.Since(began), err)
	}
	return err
}

// List lists the folder, then the database, then the bucket.
func (s *Store) List(ctx context.Context, day string, fn func(url, key string, age time.Duration) error) error {
	if err := s.local.List(ctx, day, fn); err != nil {
		return err
	}
	if s.shared != nil {
		if err := s.shared.List(ctx, day, fn); err != nil {
			return err
		}
	}
	return s.remote.List(ctx, day, fn)
}
