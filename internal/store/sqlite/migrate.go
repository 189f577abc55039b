package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"

	"github.com/bloom-runtime/bloom/internal/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations lists all schema migrations, the oldest first, and which of them were
// applied to the database at path. It only reads, and works while a process has the
// database open.
func Migrations(ctx context.Context, path string) (steps []schema.Migration, err error) {
	err = withSchema(dsn(path, "ro")+"&_pragma=busy_timeout(10000)", func(s *schema.Schema) error {
		steps, err = s.Migrations(ctx)
		return err
	})
	return steps, err
}

// MigrateUp applies the pending migrations to the database at path, which it creates
// if needed, and returns their number. Open does the same. It returns ErrLocked if a
// process has the database open.
func MigrateUp(ctx context.Context, path string) (applied int, err error) {
	held, err := lock(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, held.Unlock()) }()
	return migrateUp(ctx, path)
}

func migrateUp(ctx context.Context, path string) (applied int, err error) {
	writable := dsn(path, "rwc") + "&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	err = withSchema(writable, func(s *schema.Schema) error {
		applied, err = s.Up(ctx)
		return err
	})
	return applied, err
}

func withSchema(address string, fn func(*schema.Schema) error) (err error) {
	db, err := sql.Open("sqlite", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	s, err := schema.SQLite(db, migrations)
	if err != nil {
		return err
	}
	return fn(s)
}
