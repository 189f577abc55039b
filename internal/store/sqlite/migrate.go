package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrNewerSchema says that the database was written by a newer bloom.
var ErrNewerSchema = errors.New("the database belongs to a newer version of bloom")

// Migration is one numbered step of the schema.
type Migration struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time // zero while it is pending
}

// Migrations lists all steps of the schema, the oldest first, and which of them
// the database at path has. It only reads, also while a process has it open.
func Migrations(ctx context.Context, path string) (steps []Migration, err error) {
	err = withProvider(dsn(path, "ro")+"&_pragma=busy_timeout(10000)", func(p *goose.Provider) error {
		all, err := p.Status(ctx)
		for _, s := range all {
			steps = append(steps, Migration{
				Version: s.Source.Version, Name: s.Source.Path,
				Applied: s.State == goose.StateApplied, AppliedAt: s.AppliedAt,
			})
		}
		return err
	})
	return steps, err
}

// MigrateUp applies what is pending to the database at path, creating the file
// when there is none, and tells how many steps that were. It is for those who
// want that by hand: Open does it by itself. ErrLocked when a process has it open.
func MigrateUp(ctx context.Context, path string) (applied int, err error) {
	held, err := lock(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	return migrateUp(ctx, path)
}

func migrateUp(ctx context.Context, path string) (applied int, err error) {
	writable := dsn(path, "rwc") + "&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	err = withProvider(writable, func(p *goose.Provider) error {
		current, target, err := p.GetVersions(ctx)
		if err != nil {
			return err
		}
		if current > target {
			return fmt.Errorf("%w: its schema is number %d, this program knows %d; use the newer program", ErrNewerSchema, current, target)
		}
		done, err := p.Up(ctx)
		applied = len(done)
		return err
	})
	return applied, err
}

func withProvider(address string, fn func(*goose.Provider) error) (err error) {
	db, err := sql.Open("sqlite", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	return fn(p)
}
