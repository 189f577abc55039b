// Package sqlite keeps everything in one SQLite file: the store of a single
// machine, with nothing else to install.
//
// One connection writes. Package store runs all operations that wait in one
// transaction of it and commits once: one fsync for many callers, and every answer
// still means that the change survives a power failure. A bounded pool of
// connections reads. There is no rule in this package: it loads and writes rows.
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
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/sqldb"
)

// Defaults of a Config.
const (
	DefaultReaders = 4
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
	// MaxGroup is the most operations committed together. 0: store.DefaultMaxGroup.
	MaxGroup int
	// Transcripts notes which tasks have ended, for DueTranscripts.
	Transcripts bool
	// Queue is how many operations may wait for the writer before callers
	// block. 0: store.DefaultQueue.
	Queue int
	// Committed hears of each transaction that was written; nil: nobody does.
	Committed store.Committed
}

// Store is a bloom.Store in one SQLite file.
type Store struct {
	*store.Store
	db *database
}

var _ bloom.Store = (*Store)(nil)

// database is the file: one connection that writes, which belongs to whoever runs
// the store's transaction, and a pool of those that read.
type database struct {
	sqldb.Reads
	cfg   Config
	lock  *os.File
	read  *readers
	write *conn
	clock *follower
	index *index
	chain chain // of the audit; the writer's
}

// Open opens or creates the database, migrates it, and starts its store. A second
// process on the same file gets ErrLocked, a database of a newer schema
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
	d.Reads = sqldb.Reads{Dialect: dialect, Source: d}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), held.Close())
	}
	return &Store{store.New(d, store.Config{MaxGroup: cfg.MaxGroup, Queue: cfg.Queue, Committed: cfg.Committed, Transcripts: cfg.Transcripts}, cfg.Logger), d}, nil
}

func (d *database) open(ctx context.Context) error {
	if _, err := migrateUp(ctx, d.cfg.Path); err != nil {
		return err
	}
	c, err := dial(dsn(d.cfg.Path, "rw"), writerPragmas...)
	if err != nil {
		return err
	}
	d.write, d.read, d.clock = c, newReaders(d.cfg.Path, d.cfg.Readers, d.fail), newFollower(d.cfg.Clock, d.cfg.Logger)
	if err := errors.Join(d.openIndex(), d.openChain()); err != nil {
		return errors.Join(err, d.write.close())
	}
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
func (d *database) Name() string { return "sqlite" }

// Ping reads; the store's own Ping writes, too.
func (d *database) Ping(ctx context.Context) error {
	return d.Run(ctx, func(c sqldb.Conn) error { return c.Query(ctx, func(sqldb.Row) error { return nil }, `SELECT 1`) })
}

// Run lends a connection that reads; all that it reads is of one moment.
func (d *database) Run(ctx context.Context, fn func(c sqldb.Conn) error) error {
	return d.read.Run(ctx, fn)
}

// Snapshot is Run.
func (d *database) Snapshot(ctx context.Context, fn func(c sqldb.Conn) error) error {
	return d.read.Run(ctx, fn)
}

// Time is the clock's.
func (d *database) Time(context.Context, sqldb.Conn) (int64, error) {
	return bloom.Millis(d.cfg.Clock.Now()), nil
}

// Tell has nobody to tell: no other process uses the file.
func (d *database) Tell([]bloom.Change) {}

// Close closes the connections and lets go of the file.
func (d *database) Close() error {
	return errors.Join(d.write.close(), d.read.close(), d.index.close(), d.lock.Close())
}

// Explain turns what SQLite said into something that may be shown.
func (d *database) Explain(err error) *bloom.Error { return explain(err) }

// fail logs and explains what a read met.
func (d *database) fail(err error) error {
	var ours *bloom.Error
	switch {
	case err == nil, errors.As(err, &ours), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	d.cfg.Logger.Error("sqlite failed", "error", err)
	return explain(err)
}
