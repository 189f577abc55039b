package tiered

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/blob/s3"
)

// at is the store that has url.
func (s *Store) at(url string) bloom.Blobs {
	switch {
	case strings.HasPrefix(url, local.Scheme):
		return s.local
	case strings.HasPrefix(url, s3.Scheme), s.shared == nil, strings.HasPrefix(url, "s3://"):
		return s.patient
	}
	return s.shared
}

// Open streams what lies at url.
func (s *Store) Open(ctx context.Context, url string) (io.ReadCloser, error) {
	return s.get(url, func(b bloom.Blobs) (io.ReadCloser, error) { return b.Open(ctx, url) })
}

// OpenRange streams a part of what lies at url.
func (s *Store) OpenRange(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	return s.get(url, func(b bloom.Blobs) (io.ReadCloser, error) { return b.OpenRange(ctx, url, offset, length) })
}

func (s *Store) get(url string, open func(bloom.Blobs) (io.ReadCloser, error)) (io.ReadCloser, error) {
	from, began := s.at(url), time.Now()
	content, err := open(from)
	if from == bloom.Blobs(s.patient) {
		s.observe("get", time.Since(began), err)
	}
	return content, err
}

// Stat returns the key and the size of what lies at url. It does not wait for a storage
// that is away.
func (s *Store) Stat(ctx context.Context, url string) (string, int64, error) {
	if at := s.at(url); at != bloom.Blobs(s.patient) {
		return at.Stat(ctx, url)
	}
	if key := s.quick.Key(url); key != "" && s.Away() {
		return key, 0, fmt.Errorf("%w: bucket %s", bloom.ErrBlobsUnavailable, s.bucket.Name())
	}
	within, done := context.WithTimeout(ctx, s.stall)
	defer done()
	key, size, err := s.quick.Stat(within, url)
	if errors.Is(err, bloom.ErrBlobsUnavailable) && ctx.Err() == nil {
		s.mu.Lock()
		s.away(ctx, err)
		s.mu.Unlock()
	}
	return key, size, err
}

// Link is a public address of what lies at url for as long as valid, "" when it lies
// in the folder.
func (s *Store) Link(ctx context.Context, url string, valid time.Duration, mediaType, name string) (string, error) {
	if s.at(url) != bloom.Blobs(s.patient) {
		return "", nil
	}
	return s.patient.Link(ctx, url, valid, mediaType, name)
}

// Delete removes what lies at url.
func (s *Store) Delete(ctx context.Context, url string) error {
	at, began := s.at(url), time.Now()
	err := at.Delete(ctx, url)
	if at == bloom.Blobs(s.patient) {
		s.observe("delete", time.Since(began), err)
	}
	return err
}

// List goes through the folder, the database, then the bucket.
func (s *Store) List(ctx context.Context, prefix string, fn func(url string, age time.Duration) error) error {
	if err := s.local.List(ctx, prefix, fn); err != nil {
		return err
	}
	if s.shared != nil {
		if err := s.shared.List(ctx, prefix, fn); err != nil {
			return err
		}
	}
	return s.patient.List(ctx, prefix, fn)
}
