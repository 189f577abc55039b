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

// Migrator looks at a database's schema and brings it up to date, for those who
// want that by hand: Open does it by itself. It holds the database's lock.
type Migrator struct {
	path    string
	release func() error
}

// Migrations opens the schema of the database at path, creating the file when
// there is none. ErrLocked when a process has it open. The caller closes it.
func Migrations(_ context.Context, path string) (*Migrator, error) {
	held, err := lock(path)
	if err != nil {
		return nil, err
	}
	return &Migrator{path: path, release: held.Close}, nil
}

// Close lets go of the database.
func (m *Migrator) Close() error { return m.release() }

// Status lists all steps, the oldest first.
func (m *Migrator) Status(ctx context.Context) (steps []Migration, err error) {
	err = withProvider(m.path, func(p *goose.Provider) error {
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

// Up applies what is pending and tells how many steps that were.
func (m *Migrator) Up(ctx context.Context) (int, error) { return migrateUp(ctx, m.path) }

func migrateUp(ctx context.Context, path string) (applied int, err error) {
	err = withProvider(path, func(p *goose.Provider) error {
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

func withProvider(path string, fn func(*goose.Provider) error) (err error) {
	db, err := sql.Open("sqlite", dsn(path, "rwc")+"&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
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
