// Package sqlite keeps everything in one SQLite file: the store of a single
// machine, with nothing else to install.
//
// One goroutine, the writer, owns the only connection that writes. It takes all
// operations that wait, runs them in one transaction and commits once: one
// fsync for many callers, and every answer still means that the change survives
// a power failure. A bounded pool of connections reads.
//
// The rules of the lifecycle are the root package's; this one compares and sets.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/group"
)

// Defaults of a Config.
const (
	DefaultReaders  = 4
	DefaultMaxGroup = 128
	DefaultQueue    = 1024
)

// ErrLocked says that another process has the database open.
var ErrLocked = errors.New("the database is in use")

// Config says where the database is and how much it may use.
type Config struct {
	// Path of the database file. Its folder must exist. Required.
	Path string
	// Clock decides expiry. Nil: the system's.
	Clock bloom.Clock
	// Logger gets the causes of failures. Nil: slog's default.
	Logger *slog.Logger
	// Readers is the most connections that read at once. 0: DefaultReaders.
	Readers int
	// MaxGroup is the most operations committed together. 0: DefaultMaxGroup.
	MaxGroup int
	// Queue is how many operations may wait for the writer before callers
	// block. 0: DefaultQueue.
	Queue int
}

// Store is a bloom.Store in one SQLite file.
type Store struct {
	cfg  Config
	log  *slog.Logger
	lock *os.File
	read *readers
	w    *writer

	feed group.Feed

	closing sync.Once
	closed  error
}

var _ bloom.Store = (*Store)(nil)

// Open opens or creates the database, migrates it, and starts its writer. A
// second process on the same file gets ErrLocked, a database of a newer schema
// schema.ErrNewerSchema.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Path == "" {
		return nil, errors.New("sqlite: no path given")
	}
	if cfg.Clock == nil {
		cfg.Clock = bloom.SystemClock{}
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Readers = cmp.Or(cfg.Readers, DefaultReaders)
	cfg.MaxGroup = cmp.Or(cfg.MaxGroup, DefaultMaxGroup)
	cfg.Queue = cmp.Or(cfg.Queue, DefaultQueue)

	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	cfg.Path = path
	held, err := lock(path)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: cfg.Logger, lock: held}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), held.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if _, err := migrateUp(ctx, s.cfg.Path); err != nil {
		return err
	}
	c, err := dial(dsn(s.cfg.Path, "rw"), writerPragmas...)
	if err != nil {
		return err
	}
	s.read = newReaders(s.cfg.Path, s.cfg.Readers)
	s.w = startWriter(c, s)
	return nil
}

// writerPragmas: FULL, because NORMAL can lose the last commits with the power.
// The cache is small: the operating system's serves as well. The log is folded
// back every 16 MiB rather than every 4, for fewer syncs of the main file.
var writerPragmas = []string{
	"busy_timeout = 10000",
	"journal_mode = WAL",
	"synchronous = FULL",
	"foreign_keys = OFF",
	"cache_size = -8192",
	"temp_store = MEMORY",
	"wal_autocheckpoint = 4000",
	"journal_size_limit = 67108864",
}

var readerPragmas = []string{
	"busy_timeout = 10000",
	"query_only = ON",
	"cache_size = -1024",
	"temp_store = MEMORY",
}

// dsn names the file to the driver; the path is escaped, for it may hold what
// means something in an address.
func dsn(path, mode string) string {
	// As an opaque part: a relative path after "file://" would be read as a host.
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: "mode=" + mode}
	return u.String()
}

// Name is "sqlite".
func (s *Store) Name() string { return "sqlite" }

// Ping runs an empty transaction through the writer, so that it fails when
// writes would.
func (s *Store) Ping(ctx context.Context) error {
	_, err := write(ctx, s, func(t *tx) (struct{}, error) {
		_, err := t.number(`SELECT 1`)
		return struct{}{}, err
	})
	return err
}

// Close waits for the writes that are queued, then closes. Closing twice is
// allowed.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed = errors.Join(s.w.stop(), s.read.close(), s.lock.Close())
	})
	return s.closed
}

// fail turns what SQLite said into something that may be shown.
func (s *Store) fail(err error) error {
	var ours *bloom.Error
	switch {
	case err == nil, errors.As(err, &ours), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	shown := explain(err)
	s.log.Error("sqlite failed", "error", err)
	return shown
}
