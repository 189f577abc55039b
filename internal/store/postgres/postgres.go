// Package postgres keeps everything in a PostgreSQL database that any number of
// servers share.
//
// A transaction of package store is two round trips: one that reads and locks what
// its operations need, one that writes all changes and commits. No row is waited for
// that somebody else has locked: package store tries again what needs it. When the
// connection is cut at the commit, what the transaction would have left is looked
// for: no answer is guessed. There is no rule in this package.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/sqldb"
)

// DefaultReaders is how many connections read at once.
const DefaultReaders = 8

// DefaultParallel is how many transactions may run at once.
const DefaultParallel = 4

// DefaultPatience is how long a write is tried again while the server is away.
const DefaultPatience = store.DefaultPatience

// Config says where the database is and how much of it to use.
type Config struct {
	// URL is a connection string; several hosts may be named for failover.
	// Required.
	URL string
	// Clock decides expiry instead of the server's; for tests. Nil: the server's.
	Clock bloom.Clock
	// Logger gets the causes of failures. Nil: slog's default.
	Logger *slog.Logger
	// Readers is the most connections that read at once. 0: DefaultReaders.
	Readers int
	// MaxGroup is the most operations committed together. 0: store.DefaultMaxGroup.
	MaxGroup int
	// Transcripts notes which tasks have ended, for DueTranscripts.
	Transcripts bool
	// Queue is how many operations may wait before callers block.
	// 0: store.DefaultQueue.
	Queue int
	// Parallel is how many transactions may run at once. As a rule one does: another
	// begins when that is held up. 0: DefaultParallel.
	Parallel int
	// Patience is how long a write is tried again while the server is away, and
	// the longest a group's transaction may take; one that is alone may take twice
	// as long. 0: DefaultPatience.
	Patience time.Duration
	// Committed hears of each transaction that was written; nil: nobody does.
	Committed store.Committed
}

// Store is a bloom.Store in a PostgreSQL database. Several may share one.
type Store struct {
	*store.Store
	db *database
}

var _ bloom.Store = (*Store)(nil)

// database is the connections to the server.
type database struct {
	sqldb.Reads
	cfg     Config
	fence   *fence
	hot     *pgxpool.Pool // for writes: plans are fixed and never scan
	reads   *pgxpool.Pool
	notify  *notifier
	stopped atomic.Bool
	gaps    gaps
}

// Open connects, checks the server's version, migrates the schema and starts
// the store. A database of a newer schema is refused with schema.ErrNewerSchema.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Readers = cmp.Or(cfg.Readers, DefaultReaders)
	cfg.Parallel = cmp.Or(cfg.Parallel, DefaultParallel)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	conn, err := parse(cfg.URL)
	if err != nil {
		return nil, err
	}
	d := &database{cfg: cfg, fence: newFence(ctx, conn)}
	d.Reads = sqldb.Reads{Dialect: dialect, Source: d}
	d.fence.guard(conn)
	if err := checkVersion(ctx, conn); err != nil {
		return nil, err
	}
	if _, err := migrateUp(ctx, conn); err != nil {
		return nil, fmt.Errorf("postgresql: schema: %w", err)
	}
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	s := &Store{store.New(d, store.Config{
		MaxGroup: cfg.MaxGroup, Queue: cfg.Queue, Gather: gatherFor, Parallel: cfg.Parallel, Overlap: overlap, Patience: cfg.Patience,
		Committed: cfg.Committed, Transcripts: cfg.Transcripts, SealPoll: sealPoll,
	}, cfg.Logger), d}
	d.notify = startNotifier(ctx, d, conn, s.Publish)
	return s, nil
}

const (
	// gatherFor is how long a group waits at least for callers who have just been
	// answered and are about to ask again. Two halves of the callers taking turns would
	// cost twice the transactions.
	gatherFor = 500 * time.Microsecond
	// overlap is after how long a transaction no longer holds up the next one.
	overlap = 50 * time.Millisecond
	// sealPoll is how often is looked for entries of the audit that a server left
	// unchained when it died.
	sealPoll = time.Second
)

func (d *database) connect(ctx context.Context) (err error) {
	if d.hot, err = d.openPool(ctx, int32(d.cfg.Parallel)+lookUps, hotSettings); err != nil {
		return err
	}
	if d.reads, err = d.openPool(ctx, int32(d.cfg.Readers), readSettings); err != nil {
		d.disconnect()
		return err
	}
	if err := d.checkWhole(ctx); err != nil {
		d.disconnect()
		return err
	}
	d.warnUnsafe(ctx)
	return nil
}

// Pools are the connections that write and those that read.
func (d *database) Pools() []store.Pool {
	pools := make([]store.Pool, 0, 2)
	for name, pool := range map[string]*pgxpool.Pool{"write": d.hot, "read": d.reads} {
		now := pool.Stat()
		pools = append(pools, store.Pool{Name: name, Used: int(now.AcquiredConns()), Open: int(now.TotalConns()), Max: int(now.MaxConns())})
	}
	return pools
}

func (d *database) disconnect() {
	if d.hot != nil {
		d.hot.Close()
	}
	if d.reads != nil {
		d.reads.Close()
	}
}

// Name is "postgresql".
func (d *database) Name() string { return "postgresql" }

// Ping reports whether the server answers and can write.
func (d *database) Ping(ctx context.Context) error {
	standby, err := sqldb.Read(ctx, d, func(c sqldb.Conn) (bool, error) {
		return sqldb.One(ctx, c, sqldb.Self[bool], nil, `SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool`)
	})
	if err == nil && standby {
		return bloom.ErrUnavailable
	}
	return err
}

// Time is the server's, or the test's.
func (d *database) Time(ctx context.Context, c sqldb.Conn) (int64, error) {
	return sqldb.One(ctx, c, sqldb.Self[int64], nil, `SELECT `+nowSQL, d.testNow())
}

// Tell lets other servers know.
func (d *database) Tell(changes []bloom.Change) { d.notify.tell(changes) }

// Close ends the connections.
func (d *database) Close() error {
	d.stopped.Store(true)
	d.notify.stop()
	d.disconnect()
	return nil
}

// Explain turns what PostgreSQL said into something that may be shown.
func (d *database) Explain(err error) *bloom.Error { return explain(err) }

// fail logs and explains what a read met.
func (d *database) fail(err error) error {
	var ours *bloom.Error
	switch {
	case err == nil, errors.As(err, &ours), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	d.cfg.Logger.Error("postgresql failed", "error", err)
	return explain(err)
}
