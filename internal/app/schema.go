package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

var errPostgres = errors.New("DATABASE_URL is set, but this version keeps its data in SQLite only; unset it")

// SchemaStep is one numbered step of the database's schema.
type SchemaStep struct {
	Version   int64  `json:"version"`
	Name      string `json:"name"`
	AppliedAt *int64 `json:"applied_at"` // Unix milliseconds; null while pending
}

// SchemaStatus lists the schema's steps. The server must not be running.
func SchemaStatus(ctx context.Context, dataDir, databaseURL string) (_ []SchemaStep, err error) {
	m, err := openMigrator(ctx, dataDir, databaseURL, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	found, err := m.Status(ctx)
	if err != nil {
		return nil, err
	}
	steps := make([]SchemaStep, 0, len(found))
	for _, f := range found {
		step := SchemaStep{Version: f.Version, Name: f.Name}
		if f.Applied {
			at := f.AppliedAt.UnixMilli()
			step.AppliedAt = &at
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// SchemaUp applies what is pending and tells how many steps that were.
func SchemaUp(ctx context.Context, dataDir, databaseURL string) (n int, err error) {
	m, err := openMigrator(ctx, dataDir, databaseURL, true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return m.Up(ctx)
}

func openMigrator(ctx context.Context, dataDir, databaseURL string, create bool) (*sqlite.Migrator, error) {
	if databaseURL != "" {
		return nil, errPostgres
	}
	path := filepath.Join(dataDir, DatabaseFile)
	if create {
		if err := os.MkdirAll(dataDir, 0o700); err != nil {
			return nil, fmt.Errorf("data folder: %w", err)
		}
	} else if _, err := os.Stat(path); err != nil {
		return nil, noDatabase(dataDir, err)
	}
	m, err := sqlite.Migrations(ctx, path)
	if errors.Is(err, sqlite.ErrLocked) {
		return nil, fmt.Errorf("%w by a running bloom, which has brought it up to date; stop it first", err)
	}
	return m, err
}

// Backup copies the database to file, which must not exist.
func Backup(ctx context.Context, dataDir, databaseURL, file string) (err error) {
	if databaseURL != "" {
		return fmt.Errorf("%w (PostgreSQL has a tool of its own: pg_dump)", errPostgres)
	}
	path := filepath.Join(dataDir, DatabaseFile)
	if _, err := os.Stat(path); err != nil {
		return noDatabase(dataDir, err)
	}
	store, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.Backup(ctx, file)
}

func noDatabase(dataDir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no database in %s; name its folder with --data-dir", dataDir)
	}
	return err
}

// ArtifactsDir is where large artifacts lie.
func ArtifactsDir(dataDir string) string { return filepath.Join(dataDir, "artifacts") }
