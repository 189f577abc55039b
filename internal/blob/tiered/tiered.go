// Package tiered keeps artifact content in object storage and, while that is away, in
// a folder of this machine. What lies where its URL says; who moves it later is no
// concern of this package.
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
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/blob/s3"
	"github.com/bloom-runtime/bloom/internal/objects"
)

const (
	// DefaultStall is how long the storage may let someone wait who has to go on.
	DefaultStall = 1500 * time.Millisecond
	// probeStall is how long a probe may stall, and so the server's start.
	probeStall = 5 * time.Second
	// quickSize is the largest content that someone waits for, in bytes: a completion's.
	quickSize = 32 << 20
	// quickRate is what the storage has to take, in bytes a second, for someone to wait
	// longer than the stall.
	quickRate = 16 << 20
)

// Config is what a Store needs. Bucket and Local are required.
type Config struct {
	Bucket *objects.Bucket
	// Local has what was put before there was object storage.
	Local *local.Store
	// Shared, if not nil, takes files in place of Local while the storage is away: for
	// servers that share a database but no folder. Put fails with bloom.ErrBlobsUnavailable then,
	// for a row takes what it brings.
	Shared bloom.Blobs
	Logger *slog.Logger // discards when nil
	// Stall bounds an upload that someone waits for, in whole but for what large content
	// takes; DefaultStall when 0.
	Stall time.Duration
	// Observe, when not nil, hears of every operation of the object storage, for
	// metrics: put, get, delete, list or probe.
	Observe func(operation string, took time.Duration, err error)
}

// Store is a bloom.Blobs over both. It is safe for concurrent use.
//
// It has the circuit breaker that its callers need: a failed upload opens it and all
// that follow are placed elsewhere at once, until Refresh finds the storage well. A
// library's half-open state would let a caller pay for the trial.
type Store struct {
	patient, quick *s3.Store
	bucket, probe  *objects.Bucket
	local          *local.Store
	shared         bloom.Blobs // nil: the folder does
	stall          time.Duration
	observe        func(operation string, took time.Duration, err error)
	log            *slog.Logger

	mu    sync.Mutex
	state bloom.BlobState
}

var _ bloom.Blobs = (*Store)(nil)

// New opens the store; it counts as away until Refresh has found it well.
func New(c Config) (*Store, error) {
	c.Stall = cmp.Or(c.Stall, DefaultStall)
	quick, err := c.Bucket.Impatient(c.Stall)
	if err != nil {
		return nil, err
	}
	probe, err := c.Bucket.Impatient(probeStall)
	if err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(string, time.Duration, error) {}
	}
	return &Store{observe: c.Observe, patient: s3.New(c.Bucket), quick: s3.New(quick), bucket: c.Bucket, probe: probe, local: c.Local, shared: c.Shared, stall: c.Stall, log: c.Logger,
		state: bloom.BlobState{Kind: bloom.BlobsS3, Can: []string{}}}, nil
}

// Close closes idle connections and the folder.
func (s *Store) Close() error {
	s.bucket.Close()
	return s.local.Close()
}

// State is what is known of the storage.
func (s *Store) State() bloom.BlobState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Away reports whether content is placed elsewhere for now.
func (s *Store) Away() bool { return !s.State().Connected }

// Refresh probes the storage and reports whether it has come back.
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
		s.away(ctx, err)
		return false, err
	}
	back = !s.state.Connected
	s.state.Connected, s.state.LastError, s.state.Can = true, nil, abilities(can)
	if back {
		s.log.InfoContext(ctx, "object storage is available", "bucket", s.bucket.Name(), "can", strings.Join(s.state.Can, ","))
	}
	return back, nil
}

// away notes that the storage failed. The lock is held.
func (s *Store) away(ctx context.Context, err error) {
	text := err.Error()
	if s.state.Connected || s.state.LastError == nil {
		s.log.WarnContext(ctx, "object storage is not available; artifacts are kept here until it is back", "bucket", s.bucket.Name(), "error", err)
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

// Put uploads content, or keeps it here while the storage is away. An upload that
// fails is repeated here only when content can be read again (io.Seeker); otherwise
// the caller has to.
func (s *Store) Put(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	return s.put(ctx, key, content, size, sum, s.shared == nil)
}

// PutFile is Put of content that no row can keep.
func (s *Store) PutFile(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	if size > quickSize && s.State().Connected {
		// Its upload may stall for long before it is given up.
		if err := s.quick.Reach(ctx); err != nil && ctx.Err() == nil {
			s.mu.Lock()
			s.away(ctx, err)
			s.mu.Unlock()
		}
	}
	return s.put(ctx, key, content, size, sum, true)
}

func (s *Store) put(ctx context.Context, key string, content io.Reader, size int64, sum string, spare bool) (string, error) {
	if s.State().Connected {
		url, err := s.upload(ctx, key, content, size, sum)
		if err == nil || !errors.Is(err, bloom.ErrBlobsUnavailable) || !spare {
			return url, err
		}
		again, ok := content.(io.Seeker)
		if !ok {
			return "", err
		}
		if _, seekErr := again.Seek(0, io.SeekStart); seekErr != nil {
			return "", errors.Join(err, seekErr)
		}
	}
	if !spare {
		return "", fmt.Errorf("%w: bucket %s", bloom.ErrBlobsUnavailable, s.bucket.Name())
	}
	if s.shared != nil {
		return s.shared.Put(ctx, key, content, size, sum)
	}
	return s.local.Put(ctx, key, content, size, sum)
}

func (s *Store) upload(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	to, within := s.patient, ctx
	if size <= quickSize {
		to = s.quick
		if _, here := content.(io.Seeker); here { // else its sender may be what is slow
			limited, done := context.WithTimeout(ctx, s.stall+time.Duration(size)*time.Second/quickRate)
			defer done()
			within = limited
		}
	}
	began := time.Now()
	url, err := to.Put(within, key, content, size, sum)
	s.observe("put", time.Since(began), err)
	if err != nil && errors.Is(err, bloom.ErrBlobsUnavailable) && ctx.Err() == nil {
		s.mu.Lock()
		s.away(ctx, err)
		s.mu.Unlock()
	}
	return url, err
}

// Upload puts content into object storage and nowhere else, however long it takes.
func (s *Store) Upload(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	began := time.Now()
	url, err := s.patient.Put(ctx, key, content, size, sum)
	s.observe("put", time.Since(began), err)
	return url, err
}

// Placed reports whether what lies at url is where it belongs.
func (s *Store) Placed(url string) bool {
	return strings.HasPrefix(url, s3.Scheme+s.bucket.Name()+"/")
}
