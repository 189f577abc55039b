// Package store stores the control plane's registry in SQLite or PostgreSQL.
//
// The registry is small and its SQL simple, so both databases share it; the differences (opening,
// writing, the clock) are in sqlite.go and postgres.go. The rules are in package registry; the
// store only stores and compares.
package store

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
	"github.com/bloom-runtime/bloom/internal/timing"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a registry.Store over a SQL database.
type Store struct {
	clock timing.Clock
	read  querier
	// write runs fn in a transaction that sees and blocks every other write it could conflict with.
	// fn may run more than once and must start afresh.
	write func(ctx context.Context, fn func(ctx context.Context, q querier) error) error
	// lockRow is appended to a SELECT of a row that the transaction will change.
	lockRow string
	// lockName is a statement that locks a name without a row until the transaction ends; empty
	// when writes are serialized.
	lockName string
	// eachName is a query that returns $1, a JSON list, as rows with the column name.
	eachName string
	// most is how many agents, and how many nodes, the agent key may make known; 0 means
	// bloom.MaxWorkers.
	most  int
	close func() error
}

var _ registry.Store = (*Store)(nil)

// querier is the common interface of a pool, a connection and a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Open opens the PostgreSQL database at databaseURL, or the SQLite file at path when that is empty,
// and migrates it. A nil clock means the database's own (PostgreSQL) or the machine's (SQLite).
func Open(ctx context.Context, databaseURL, path string, clock timing.Clock) (*Store, error) {
	if databaseURL == "" {
		return OpenSQLite(ctx, path, clock)
	}
	if !strings.HasPrefix(databaseURL, "postgres://") && !strings.HasPrefix(databaseURL, "postgresql://") {
		return nil, errors.New("DATABASE_URL must start with postgres:// or postgresql://")
	}
	return OpenPostgres(ctx, databaseURL, clock)
}

// claimName prevents other transactions from creating the same name at the same time.
func (s *Store) claimName(ctx context.Context, q querier, name string) error {
	if s.lockName == "" {
		return nil
	}
	_, err := q.ExecContext(ctx, s.lockName, name)
	return err
}

// Now returns the store's time.
func (s *Store) Now() time.Time { return s.clock.Now() }

func (s *Store) nowMillis() int64 { return s.clock.Now().UnixMilli() }

// Close waits for accepted writes and closes the database.
func (s *Store) Close() error { return s.close() }

// Counts returns the numbers in the health report.
func (s *Store) Counts(ctx context.Context) (registry.Counts, error) {
	var c registry.Counts
	err := s.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM projects), (SELECT count(*) FROM agents)`).
		Scan(&c.Projects, &c.Agents)
	return c, err
}

// checkRoom returns registry.ErrFull when a table has as many names as callers other than an admin may
// create.
func (s *Store) checkRoom(ctx context.Context, q querier, count string, by registry.Proof) error {
	if by.Admin {
		return nil
	}
	n := 0
	err := q.QueryRowContext(ctx, count).Scan(&n)
	if err == nil && n >= cmp.Or(s.most, bloom.MaxWorkers) {
		err = registry.ErrFull
	}
	return err
}

// MarkAlive records that a control plane is serving. The time never goes back.
func (s *Store) MarkAlive(ctx context.Context) (before time.Time, err error) {
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		before = time.Time{}
		var at int64
		err := q.QueryRowContext(ctx, `SELECT alive_at FROM control_plane WHERE id = 1`).Scan(&at)
		switch {
		case err == nil:
			before = time.UnixMilli(at)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		_, err = q.ExecContext(ctx, `
			INSERT INTO control_plane (id, alive_at) VALUES (1, $1)
			ON CONFLICT (id) DO UPDATE SET alive_at = excluded.alive_at
			WHERE control_plane.alive_at < excluded.alive_at`, s.nowMillis())
		return err
	})
	return before, err
}

// collect scans every row of a query; the slice is never nil.
func collect[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// scanner is a single row or one of several.
type scanner interface{ Scan(dest ...any) error }

// affected returns none when no row changed.
func affected(res sql.Result, err, none error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return none
}

// orMissing replaces "no such row" by the error.
func orMissing(err, missing error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return missing
	}
	return err
}

func secondsPtr(ms sql.NullInt64) *registry.Seconds {
	if !ms.Valid {
		return nil
	}
	s := registry.MillisToSeconds(ms.Int64)
	return &s
}
