// Package tiered stores artifact content in object storage and, while that is unavailable, in a
// folder of this machine. A URL says where its content is; another package moves it later.
package tiered

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/blob/s3"
	"github.com/bloom-runtime/bloom/internal/objects"
)

const (
	// DefaultStall is how long a caller that cannot wait lets the storage stall.
	DefaultStall = 1500 * time.Millisecond
	// probeStall is how long a probe may stall, and with it the server's start.
	probeStall = 5 * time.Second
	// quickSize is the largest content that is uploaded with a short timeout, in bytes: that of a
	// completion.
	quickSize = 32 << 20
	// quickRate is the rate, in bytes a second, at which large content extends that timeout.
	quickRate = 16 << 20
)

// Config configures a Store. Bucket and Local are required.
type Config struct {
	Bucket *objects.Bucket
	Area   blob.Area // of the bucket
	// Local also has the content from before object storage was configured.
	Local *local.Store
	// Shared, if not nil, stores files instead of Local while the storage is unavailable: for
	// servers that share a database but no folder. Put then fails with blob.ErrUnavailable,
	// and the caller stores the content in its row.
	Shared blob.Blobs
	Logger *slog.Logger // discards when nil
	// Stall bounds an upload with a short timeout, apart from the time that large content adds;
	// DefaultStall when 0.
	Stall time.Duration
	// Observe, when not nil, is called after every operation of the object storage, for metrics:
	// put, get, delete or probe.
	Observe func(operation string, took time.Duration, err error)
}

// Store is a blob.Blobs over both. It is safe for concurrent use.
//
// It contains a circuit breaker: after a failed upload, all content is stored elsewhere until
// Refresh finds that the storage works. With a library's half-open state, a caller would have to
// wait for the trial request.
type Store struct {
	remote, failFast *s3.Store // the same bucket; failFast with a short timeout
	bucket, probe    *objects.Bucket
	local            *local.Store
	shared           blob.Blobs // nil: local is used
	stall            time.Duration
	observe          func(operation string, took time.Duration, err error)
	log              *slog.Logger

	mu    sync.Mutex
	state bloom.BlobState
}

var _ blob.Blobs = (*Store)(nil)

// New opens the store; the object storage counts as unavailable until Refresh succeeds.
func New(c Config) (*Store, error) {
	c.Stall = cmp.Or(c.Stall, DefaultStall)
	failFast, err := c.Bucket.FailFast(c.Stall)
	if err != nil {
		return nil, err
	}
	probe, err := c.Bucket.FailFast(probeStall)
	if err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(string, time.Duration, error) {}
	}
	return &Store{observe: c.Observe, remote: s3.New(c.Bucket, c.Area), failFast: s3.New(failFast, c.Area), bucket: c.Bucket, probe: probe, local: c.Local, shared: c.Shared, stall: c.Stall, log: c.Logger,
		state: bloom.BlobState{Kind: bloom.BlobsS3, Can: []string{}}}, nil
}

// Close closes idle connections and the folder.
func (s *Store) Close() error {
	s.bucket.Close()
	return s.local.Close()
}

// State returns the known state of the object storage.
func (s *Store) State() bloom.BlobState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Unavailable reports whether the object storage is unavailable, so that content is stored elsewhere.
func (s *Store) Unavailable() bool { return !s.State().Connected }

// Refresh probes the object storage and reports whether it has become available again.
func (s *Store) Refresh(ctx context.Context) (back bool, err error) {
	began := time.Now()
	can, err := s.probe.Check(ctx)
	s.observe("probe", time.Since(began), err)
	if ctx.Err() != nil && err != nil {
		return false, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed(ctx, err)
		return false, err
	}
	back = !s.state.Connected
	s.state.Connected, s.state.LastError, s.state.Can = true, nil, abilities(can)
	if back {
		s.log.InfoContext(ctx, "object storage is available", "bucket", s.bucket.Name(), "can", strings.Join(s.state.Can, ","))
	}
	return back, nil
}

// failed marks the object storage as unavailable. It requires s.mu.
func (s *Store) failed(ctx context.Context, err error) {
	text := err.Error()
	if s.state.Connected || s.state.LastError == nil {
		s.log.WarnContext(ctx, "object storage is unavailable; storing artifacts elsewhere until it is back", "bucket", s.bucket.Name(), "error", err)
	}
	s.state.Connected, s.state.LastError = false, &text
}

func abilities(can objects.Abilities) []string {
	names := []string{}
	for _, one := range []struct {
		name string
		can  bool
	}{{"write", can.Write}, {"conditional_write", can.ConditionalWrite}, {"read", can.Read}, {"delete", can.Delete}} {
		if one.can {
			names = append(names, one.name)
		}
	}
	return names
}

// Put uploads content, or stores it elsewhere while the object storage is unavailable. After a
// failed upload, it does so only if content can be read again (io.Seeker); otherwise the caller has
// to retry.
func (s *Store) Put(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	return s.put(ctx, key, content, size, sum, s.shared == nil)
}

// PutFile is Put for content that is too large for a row.
func (s *Store) PutFile(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	if size > quickSize && s.State().Connected {
		// Its upload may stall for long before it is aborted.
		if err := s.failFast.Reach(ctx); err != nil && ctx.Err() == nil {
			s.mu.Lock()
			s.failed(ctx, err)
			s.mu.Unlock()
		}
	}
	return s.put(ctx, key, content, size, sum, true)
}

func (s *Store) put(ctx context.Context, key string, content io.Reader, size int64, sum string, elsewhere bool) (string, error) {
	if s.State().Connected {
		url, err := s.upload(ctx, key, content, size, sum)
		if err == nil || !errors.Is(err, blob.ErrUnavailable) || !elsewhere {
			return url, err
		}
		seeker, ok := content.(io.Seeker)
		if !ok {
			return "", err
		}
		if _, seekErr := seeker.Seek(0, io.SeekStart); seekErr != nil {
			return "", errors.Join(err, seekErr)
		}
	}
	if !elsewhere {
		return "", fmt.Errorf("%w: bucket %s", blob.ErrUnavailable, s.bucket.Name())
	}
	if s.shared != nil {
		return s.shared.Put(ctx, key, content, size, sum)
	}
	return s.local.Put(ctx, key, content, size, sum)
}

func (s *Store) upload(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	to, within := s.remote, ctx
	if size <= quickSize {
		to = s.failFast
		if _, seekable := content.(io.Seeker); seekable { // otherwise the sender may be slow, not the storage
			limited, done := context.WithTimeout(ctx, s.stall+time.Duration(size)*time.Second/quickRate)
			defer done()
			within = limited
		}
	}
	began := time.Now()
	url, err := to.Put(within, key, content, size, sum)
	s.observe("put", time.Since(began), err)
	if err != nil && errors.Is(err, blob.ErrUnavailable) && ctx.Err() == nil {
		s.mu.Lock()
		s.failed(ctx, err)
		s.mu.Unlock()
	}
	return url, err
}

// Remote returns the object storage alone.
func (s *Store) Remote() *s3.Store { return s.remote }

// Upload uploads content to the object storage, without a short timeout and without falling back.
func (s *Store) Upload(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	began := time.Now()
	url, err := s.remote.Put(ctx, key, content, size, sum)
	s.observe("put", time.Since(began), err)
	return url, err
}

// Placed reports whether the content at url is already in the configured bucket.
func (s *Store) Placed(url string) bool {
	return strings.HasPrefix(url, s3.Scheme+s.bucket.Name()+"/")
}
