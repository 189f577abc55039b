// Package schema has what the databases share below their tables: numbered migrations, each applied
// once and in order, and text encodings of values. It knows no tables and no rules.
package schema

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// ErrNewerSchema is returned for a database that a newer bloom has migrated.
var ErrNewerSchema = errors.New("the database belongs to a newer version of bloom")

// Migration is one numbered step of a schema.
type Migration struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time // zero while it is pending
}

// Schema is the known migrations and their database.
type Schema struct {
	provider *goose.Provider
	patience retry.Policy // for tables in use
}

// SQLite returns the schema of a SQLite file, with the migrations in the folder migrations of
// files. The caller must hold the lock of the file: SQLite has none that spans transactions.
func SQLite(db *sql.DB, files fs.FS) (*Schema, error) {
	return open(goose.DialectSQLite3, db, files)
}

// Postgres returns the schema of a PostgreSQL database. lockID is the advisory lock during
// migration: replicas that start together migrate one after the other.
func Postgres(db *sql.DB, files fs.FS, lockID int64) (*Schema, error) {
	// Tried every second for five minutes, so that waiting replicas start within a second of each
	// other.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(lockID), lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, err
	}
	return open(goose.DialectPostgres, db, files, goose.WithSessionLocker(briefly{locker}))
}

func open(dialect goose.Dialect, db *sql.DB, files fs.FS, options ...goose.ProviderOption) (*Schema, error) {
	steps, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(dialect, db, steps, append(options, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return nil, err
	}
	return &Schema{provider, inUsePatience}, nil
}

// Migrations returns all steps, oldest first, and which of them the database has. It may be called
// while others use the database.
func (s *Schema) Migrations(ctx context.Context) ([]Migration, error) {
	all, err := s.provider.Status(ctx)
	if err != nil {
		return nil, err
	}
	steps := make([]Migration, 0, len(all))
	for _, a := range all {
		steps = append(steps, Migration{
			Version: a.Source.Version, Name: a.Source.Path,
			Applied: a.State == goose.StateApplied, AppliedAt: a.AppliedAt,
		})
	}
	return steps, nil
}

// Up applies pending steps and returns their number, even if a later one failed. A database with
// unknown steps is not changed: ErrNewerSchema. If tables are in use for longer than a minute:
// ErrInUse.
func (s *Schema) Up(ctx context.Context) (applied int, err error) {
	current, target, err := s.provider.GetVersions(ctx)
	if err != nil {
		return 0, err
	}
	if current > target {
		return 0, fmt.Errorf("%w: its schema is number %d, this program knows %d; use the newer program", ErrNewerSchema, current, target)
	}
	applied, err = retry.Do(ctx, s.patience, func() (int, error) {
		done, err := s.provider.Up(ctx)
		if partial := (*goose.PartialError)(nil); errors.As(err, &partial) {
			done = partial.Applied
		}
		applied += len(done)
		if err != nil && !inUse(err) {
			err = retry.Permanent(err)
		}
		return applied, err
	})
	if inUse(err) {
		err = cmp.Or(ctx.Err(), fmt.Errorf("%w (%w)", ErrInUse, err))
	}
	return applied, err
}
