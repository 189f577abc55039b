package postgres

import (
	"context"
	"embed"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bloom-runtime/bloom/internal/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock of the runtime's schema.
const migrationLock = 0x626c6f6f6d5f6462 // "bloom_db"

// Migrations lists all schema migrations of the database at url, the oldest first. It
// may be called while servers run.
func Migrations(ctx context.Context, url string) (steps []schema.Migration, err error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	err = withSchema(ctx, cfg, func(s *schema.Schema) error {
		steps, err = s.Migrations(ctx)
		return err
	})
	return steps, err
}

// MigrateUp applies the pending migrations and returns their number. Open does the
// same.
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
	err = withSchema(ctx, cfg, func(s *schema.Schema) error {
		applied, err = s.Up(ctx)
		return err
	})
	return applied, err
}

func withSchema(ctx context.Context, cfg *pgx.ConnConfig, fn func(*schema.Schema) error) (err error) {
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(2)
	if err := schema.RefuseEarlier(ctx, db, ""); err != nil {
		return err
	}
	s, err := schema.Postgres(db, migrations, migrationLock)
	if err != nil {
		return err
	}
	return fn(s)
}
