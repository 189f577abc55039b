// Package sqlite implements the store of a single machine in one SQLite file.
//
// One connection writes. Package store batches the waiting operations into one
// transaction, so many callers share one fsync; every acknowledged change survives a
// power failure. A bounded pool of connections reads. This package contains no rules:
// it loads and writes rows.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/durable"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// DefaultReaders is the default of Config.Readers.
const DefaultReaders = 4

// ErrLocked means that another process has the database open.
var ErrLocked = errors.New("the database is in use")

// Config configures a Store.
type Config struct {
	// Path of the database file. Its folder must exist. Required.
	Path string
	// Clock decides expiry. Nil: the system's.
	Clock timing.Clock
	// Logger gets the causes of failures. Nil: slog's default.
	Logger *slog.Logger
	// Readers is the maximum number of read connections. 0: DefaultReaders.
	Readers int
	// MaxGroup is the maximum number of operations in one transaction. 0:
	// store.DefaultMaxGroup.
	MaxGroup int
	// Transcripts records which tasks have ended, for DueRunLogs.
	Transcripts bool
	// Queue is how many operations may wait before callers block. 0:
	// store.DefaultQueue.
	Queue int
	// Committed is called after each transaction that wrote something; it may be nil.
	Committed store.Committed
}

// Store implements contract.Store in one SQLite file.
type Store struct {
	*store.Store
	db *database
}

var _ contract.Store = (*Store)(nil)

// database is the write connection, which the running transaction uses, and the pool
// of readers.
type database struct {
	cfg   Config
	lock  durable.Lock
	main  *os.File    // the database; closing it would end SQLite's locks, so it is closed last
	file  os.FileInfo // of the database, as last seen; used by the writer only
	read  *readers
	write *conn
	clock *follower
	index *index
	chain chain // used by the writer only
}

// Open opens or creates the database, migrates it, and starts its store. It returns
// ErrLocked if another process has the file open, and schema.ErrNewerSchema if a
// newer version has migrated it.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Path == "" {
		return nil, errors.New("sqlite: no path given")
	}
	if cfg.Clock == nil {
		cfg.Clock = timing.System{}
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Readers = cmp.Or(cfg.Readers, DefaultReaders)
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	cfg.Path = path
	held, err := lock(path)
	if err != nil {
		return nil, err
	}
	d := &database{cfg: cfg, lock: held}
	if err := d.open(ctx); err != nil {
		if failure := explain(err); failure.Kind == bloom.KindUnavailable {
			err = fmt.Errorf("%w: %s", err, failure.Message)
		}
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), held.Unlock())
	}
	return &Store{store.New(d, store.Config{MaxGroup: cfg.MaxGroup, Queue: cfg.Queue, Committed: cfg.Committed, Transcripts: cfg.Transcripts}, cfg.Logger), d}, nil
}

func (d *database) open(ctx context.Context) error {
	if _, err := migrateUp(ctx, d.cfg.Path); err != nil {
		return err
	}
	main, err := os.Open(d.cfg.Path)
	if err != nil {
		return err
	}
	c, err := dial(dsn(d.cfg.Path, "rw"), writerPragmas...)
	if err != nil {
		return errors.Join(err, main.Close())
	}
	d.main, d.write, d.read, d.clock = main, c, newReaders(d.cfg.Path, d.cfg.Readers, d.fail), newFollower(d.cfg.Clock, d.cfg.Logger)
	d.file, err = main.Stat()
	if err := errors.Join(err, d.openIndex(), d.openChain()); err != nil {
		return errors.Join(err, d.write.close(), main.Close())
	}
	return nil
}

// writerPragmas use synchronous FULL, because NORMAL can lose the last commits in a
// power failure. The page cache is small, since the operating system caches the file
// too. The checkpoint interval is 16 MiB instead of 4, for fewer syncs of the main
// file.
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

// dsn returns the driver's address of a file, with the path escaped.
func dsn(path, mode string) string {
	// Opaque, because a relative path after "file://" would be parsed as a host.
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: "mode=" + mode}
	return u.String()
}

// Name returns "sqlite".
func (d *database) Name() string { return "sqlite" }

// Ping reads a row; the store's Ping also begins a transaction.
func (d *database) Ping(ctx context.Context) error {
	return d.Run(ctx, func(c store.Conn) error {
		return c.Query(ctx, func(store.Row) error { return nil }, `SELECT queued FROM counters`)
	})
}

// Run runs fn on a read connection, in one snapshot.
func (d *database) Run(ctx context.Context, fn func(c store.Conn) error) error {
	return d.read.Run(ctx, fn)
}

// Snapshot is Run.
func (d *database) Snapshot(ctx context.Context, fn func(c store.Conn) error) error {
	return d.read.Run(ctx, fn)
}

// Time returns the clock's time.
func (d *database) Time(context.Context, store.Conn) (int64, error) {
	return timing.Millis(d.cfg.Clock.Now()), nil
}

// Notify does nothing: no other process uses the file.
func (d *database) Notify([]bloom.Change) {}

// Close closes all connections and unlocks the file.
func (d *database) Close() error {
	return errors.Join(d.write.close(), d.read.close(), d.index.close(), d.main.Close(), d.lock.Unlock())
}

// Explain turns a failure into an error that is safe to show to callers.
func (d *database) Explain(err error) *bloom.Error { return explain(err) }

// fail logs and explains a failure. Other errors it returns unchanged.
func (d *database) fail(err error) error {
	var ours *bloom.Error
	switch {
	case err == nil, errors.As(err, &ours), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	d.cfg.Logger.Error("sqlite failed", "error", err)
	return explain(err)
}

// Dialect returns the database's expressions.
func (d *database) Dialect() *store.Dialect { return dialect }
