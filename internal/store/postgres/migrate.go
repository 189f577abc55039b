package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrNewerSchema says that the database was written by a newer bloom.
var ErrNewerSchema = errors.New("the database belongs to a newer version of bloom")

// migrationLock is the advisory lock of the runtime's schema: replicas that
// start together migrate one after the other.
const migrationLock = 0x626c6f6f6d5f6462 // "bloom_db"

// Migration is one numbered step of the schema.
type Migration struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time // zero while it is pending
}

// Migrations lists all steps of the schema of the database at url, the oldest
// first. It may be called while servers run.
func Migrations(ctx context.Context, url string) (steps []Migration, err error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	err = withProvider(cfg, func(p *goose.Provider) error {
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

// MigrateUp applies what is pending and tells how many steps that were, for those
// who want that by hand: Open does it by itself.
func MigrateUp(ctx context.Context, url string) (applied int, err error) {
	cfg, err := parse(url)
	if err != nil {
		return 0, err
	}
	if err := checkVersion(ctx, cfg); err != nil {
		return 0, err
	}
	return migrateUp(ctx, cfg)
}

func migrateUp(ctx context.Context, cfg *pgx.ConnConfig) (applied int, err error) {
	err = withProvider(cfg, func(p *goose.Provider) error {
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

func withProvider(cfg *pgx.ConnConfig, fn func(*goose.Provider) error) (err error) {
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(2)
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	// Tried every second: replicas that wait start within a second of each other.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(1, 300))
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	return fn(p)
}
