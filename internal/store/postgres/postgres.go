// Package postgres implements the store in a PostgreSQL database that any number of
// servers share.
//
// A transaction takes two round trips: one locks and reads the read set of its
// operations, one writes all changes and commits. It never waits for a locked row;
// package store retries the operations that need it. If the connection is lost during
// the commit, the outcome is looked up in the database. This package contains no rules.
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
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Defaults of a Config.
const (
	DefaultReaders  = 8
	DefaultParallel = 4
	DefaultPatience = store.DefaultPatience
)

// Config configures a Store.
type Config struct {
	// URL is a connection string. It may name several hosts for failover. Required.
	URL string
	// Clock replaces the server's clock in tests. Nil: the server's.
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
	// Queue is how many operations may wait before callers block.
	// 0: store.DefaultQueue.
	Queue int
	// Parallel is how many transactions may run at once. Usually one does: another begins
	// only while that is blocked. 0: DefaultParallel.
	Parallel int
	// Patience is how long a write is retried while the server is unreachable, and how
	// long one attempt at a transaction may take. 0: DefaultPatience.
	Patience time.Duration
	// Committed is called after each transaction that wrote something; it may be nil.
	Committed store.Committed
}

// Store implements contract.Store in a PostgreSQL database. Several may share one
// database.
type Store struct {
	*store.Store
	db *database
}

var _ contract.Store = (*Store)(nil)

// database is the connections to the server.
type database struct {
	cfg     Config
	fence   *fence
	hot     *pgxpool.Pool // for writes
	reads   *pgxpool.Pool
	notify  *notifier
	stopped atomic.Bool
	gaps    gaps
}

// Open connects, checks the server's version, migrates the schema and starts the
// store. It returns schema.ErrNewerSchema if a newer version has migrated the
// database.
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
	// gatherFor is the least time that a group waits for callers who were just answered
	// and are about to submit again. Otherwise two halves of the callers would take
	// turns, with twice the transactions.
	gatherFor = 500 * time.Microsecond
	// overlap is how long the next transaction waits for the previous one.
	overlap = 50 * time.Millisecond
	// sealPoll is how often to look for audit entries that a server left unchained when
	// it crashed.
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

// Pools returns the state of the pools of writers and readers.
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

// Name returns "postgresql".
func (d *database) Name() string { return "postgresql" }

// Ping reports whether the server answers and accepts writes.
func (d *database) Ping(ctx context.Context) error {
	standby, err := store.Read(ctx, d, func(c store.Conn) (bool, error) {
		return store.One(ctx, c, store.Self[bool], nil, `SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool`)
	})
	if err == nil && standby {
		return bloom.ErrUnavailable
	}
	return err
}

// Time returns the server's time, or the test clock's.
func (d *database) Time(ctx context.Context, c store.Conn) (int64, error) {
	return store.One(ctx, c, store.Self[int64], nil, `SELECT `+nowSQL, d.testNow())
}

// Notify sends changes to the other servers.
func (d *database) Notify(changes []bloom.Change) { d.notify.enqueue(changes) }

// Close closes all connections.
func (d *database) Close() error {
	d.stopped.Store(true)
	d.notify.stop()
	d.disconnect()
	return nil
}

// Explain turns a failure into an error that is safe to show to callers.
func (d *database) Explain(err error) *bloom.Error {
	if d.stopped.Load() {
		return unavailable(bloom.ErrUnavailable.Message, err)
	}
	return explain(err)
}

// fail logs and explains a failure. Other errors it returns unchanged.
func (d *database) fail(err error) error {
	var ours *bloom.Error
	switch {
	case err == nil, errors.As(err, &ours), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	d.cfg.Logger.Error("postgresql failed", "error", err)
	return d.Explain(err)
}

// Dialect returns the database's expressions.
func (d *database) Dialect() *store.Dialect { return dialect }
