// Package postgres keeps everything in a PostgreSQL database that any number of
// servers share.
//
// One goroutine, the lane, does what is asked for most: it takes all operations
// that wait, decides with the root package's rules on what it remembers of the rows
// they need, and writes all changes and the commit in one round trip, which fails
// when a row is no longer as it was remembered. What it does not remember, or what
// failed, it reads first in a round trip before (rows of tasks locked in the order
// of their seq). Operations that are rare, or that touch more than they name, run in
// a transaction of their own.
//
// When the connection is cut at the commit, what the transaction would have left
// is looked for: no answer is guessed.
//
// The rules of the lifecycle are the root package's; this one compares and sets.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/group"
)

// Defaults of a Config.
const (
	DefaultReaders  = 8
	DefaultMaxGroup = 128
	DefaultQueue    = 1024
	DefaultPatience = 10 * time.Second
)

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
	// MaxGroup is the most operations committed together. 0: DefaultMaxGroup.
	MaxGroup int
	// Queue is how many operations may wait for the lane before callers block.
	// 0: DefaultQueue.
	Queue int
	// Patience is how long a write is tried again while the server is away, and
	// the longest a group's transaction may take; one that is alone may take twice
	// as long. 0: DefaultPatience.
	Patience time.Duration
}

// Store is a bloom.Store in a PostgreSQL database. Several may share one.
type Store struct {
	cfg   Config
	log   *slog.Logger
	fence *fence
	hot   *pgxpool.Pool // for writes: plans are fixed and never scan
	reads *pgxpool.Pool

	lane *lane // what is asked for most

	contact contactCache // when workers were last noted as heard of
	roster  roster       // online workers, for leases that name nobody

	feed   group.Feed
	notify *notifier

	life    context.Context // ends when the store has closed
	end     context.CancelFunc
	mu      sync.RWMutex // guards stopped against new writes
	stopped bool
	alone   sync.WaitGroup // operations in transactions of their own
	closing sync.Once
}

var _ bloom.Store = (*Store)(nil)

// Open connects, checks the server's version, migrates the schema and starts the
// lane. A database of a newer schema is refused with schema.ErrNewerSchema.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Readers = cmp.Or(cfg.Readers, DefaultReaders)
	cfg.MaxGroup = cmp.Or(cfg.MaxGroup, DefaultMaxGroup)
	cfg.Queue = cmp.Or(cfg.Queue, DefaultQueue)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	conn, err := parse(cfg.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: cfg.Logger, fence: newFence(ctx, conn)}
	s.fence.guard(conn)
	if err := checkVersion(ctx, conn); err != nil {
		return nil, err
	}
	if _, err := migrateUp(ctx, conn); err != nil {
		return nil, fmt.Errorf("postgresql: schema: %w", err)
	}
	s.life, s.end = context.WithCancel(context.Background())
	if err := s.connect(ctx); err != nil {
		s.end()
		return nil, err
	}
	s.lane = startLane(s)
	s.notify = startNotifier(ctx, s, conn)
	return s, nil
}

func (s *Store) connect(ctx context.Context) (err error) {
	// Room for the lane, for operations in transactions of their own, and for
	// the locks of the loops that run once.
	if s.hot, err = s.openPool(ctx, laneConns+aloneConns, hotSettings); err != nil {
		return err
	}
	if s.reads, err = s.openPool(ctx, int32(s.cfg.Readers), readSettings); err != nil {
		s.disconnect()
		return err
	}
	if err := s.checkWhole(ctx); err != nil {
		s.disconnect()
		return err
	}
	s.warnUnsafe(ctx)
	return nil
}

func (s *Store) disconnect() {
	if s.hot != nil {
		s.hot.Close()
	}
	if s.reads != nil {
		s.reads.Close()
	}
}

// Name is "postgresql".
func (s *Store) Name() string { return "postgresql" }

// Ping reports whether the server answers and can write.
func (s *Store) Ping(ctx context.Context) error {
	standby, err := read(ctx, s, func(c reader) (standby bool, err error) {
		err = c.QueryRow(ctx, `SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool`).Scan(&standby)
		return standby, err
	})
	if err == nil && standby {
		return bloom.ErrUnavailable
	}
	return err
}

// Close waits for the writes under way, then closes. Closing twice is allowed.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.mu.Lock()
		s.stopped = true
		s.mu.Unlock()
		s.lane.stop()
		s.alone.Wait()
		s.notify.stop()
		s.end()
		s.disconnect()
	})
	return nil
}

// fail turns what PostgreSQL said into something that may be shown.
func (s *Store) fail(err error) error {
	var ours *bloom.Error
	switch {
	case err == nil, errors.As(err, &ours), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	s.log.Error("postgresql failed", "error", err)
	return explain(err)
}
