package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// namespace separates the control plane's tables from the runtime's if both use one database.
const namespace = "membridge"

// migrationLock is this schema's advisory lock: replicas that start together migrate one after the
// other.
const migrationLock = 0x6d656d6272696467 // "membridg"

// postgresConns bounds the pool of one replica.
const postgresConns = 16

// clockEvery is how often the offset to the database's clock is measured.
const clockEvery = 30 * time.Second

// OpenPostgres opens a separate schema in the database at databaseURL. A nil clock means the
// database's, so that replicas with different clocks agree on what has expired.
func OpenPostgres(ctx context.Context, databaseURL string, clock timing.Clock) (*Store, error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		// The parser's error can contain the URL with its password.
		return nil, errors.New("DATABASE_URL is not a valid PostgreSQL URL")
	}
	cfg.RuntimeParams["search_path"] = namespace
	cfg.RuntimeParams["application_name"] = "bloom-membridge"
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(postgresConns)
	db.SetMaxIdleConns(postgresConns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	if err := migratePostgres(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("membridge registry in PostgreSQL: %w", err), db.Close())
	}
	s := &Store{clock: clock, read: db, lockRow: " FOR UPDATE",
		lockName: `SELECT pg_advisory_xact_lock(hashtextextended('membridge ' || $1::text, 0))`,
		eachName: `SELECT value AS name FROM jsonb_array_elements_text($1::text::jsonb)`, close: sync.OnceValue(db.Close)}
	s.write = func(ctx context.Context, fn func(ctx context.Context, q querier) error) error {
		return inTransaction(ctx, db, fn)
	}
	if clock == nil {
		dbClock, err := startDatabaseClock(ctx, db)
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		s.clock = dbClock
		s.close = sync.OnceValue(func() error { dbClock.stop(); return db.Close() })
	}
	return s, nil
}

func migratePostgres(ctx context.Context, db *sql.DB) error {
	if err := schema.RefuseEarlier(ctx, db, "public"); err != nil {
		return err
	}
	// Two replicas that create the schema at the same time would collide even with IF NOT EXISTS.
	// The lock ends with the transaction.
	err := inTransaction(ctx, db, func(ctx context.Context, q querier) error {
		if _, err := q.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		_, err := q.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+namespace)
		return err
	})
	if err != nil {
		return err
	}
	steps, err := schema.Postgres(db, migrations, migrationLock)
	if err != nil {
		return err
	}
	_, err = steps.Up(ctx)
	return err
}

// conflicts is the retry policy of transactions that were rolled back because of a conflict.
var conflicts = retry.Policy{First: 2 * time.Millisecond, Max: 50 * time.Millisecond, Jitter: 1, Tries: 5}

func inTransaction(ctx context.Context, db *sql.DB, fn func(ctx context.Context, q querier) error) error {
	_, err := retry.Do(ctx, conflicts, func() (struct{}, error) {
		err := once(ctx, db, fn)
		var pgErr *pgconn.PgError
		// 40P01 deadlock, 40001 serialization.
		if errors.As(err, &pgErr) && (pgErr.Code == "40P01" || pgErr.Code == "40001") {
			return struct{}{}, err
		}
		return struct{}{}, retry.Permanent(err)
	})
	return err
}

func once(ctx context.Context, db *sql.DB, fn func(ctx context.Context, q querier) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(ctx, tx); err != nil {
		_ = tx.Rollback() // the first error is returned
		return err
	}
	return tx.Commit()
}

// databaseClock is the machine's clock adjusted to the database's. Its readings grow steadily
// between two measurements.
type databaseClock struct {
	db     *sql.DB
	offset atomic.Int64 // nanoseconds to add
	cancel context.CancelFunc
	done   chan struct{}
}

func startDatabaseClock(ctx context.Context, db *sql.DB) (*databaseClock, error) {
	c := &databaseClock{db: db, done: make(chan struct{})}
	if err := c.measure(ctx); err != nil {
		return nil, err
	}
	loop, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go c.run(loop)
	return c, nil
}

// Now returns the database's current time.
func (c *databaseClock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// measure reads the database's time and assumes that it was read halfway between request and
// response.
func (c *databaseClock) measure(ctx context.Context) error {
	var there time.Time
	asked := time.Now()
	if err := c.db.QueryRowContext(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return err
	}
	middle := asked.Add(time.Since(asked) / 2)
	c.offset.Store(int64(there.Sub(middle)))
	return nil
}

// run keeps the last offset while the database does not answer.
func (c *databaseClock) run(ctx context.Context) {
	defer close(c.done)
	ticker := time.NewTicker(clockEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = c.measure(ctx)
		}
	}
}

func (c *databaseClock) stop() { c.cancel(); <-c.done }
