package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/earlier"
	"github.com/bloom-runtime/bloom/internal/store/importer"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// SchemaStep is one numbered step of the database's schema.
type SchemaStep struct {
	Version   int64  `json:"version"`
	Name      string `json:"name"`
	AppliedAt *int64 `json:"applied_at"` // Unix milliseconds; null while pending
}

// SchemaStatus lists the schema's steps, also while a server is running.
func SchemaStatus(ctx context.Context, dataDir, databaseURL string) ([]SchemaStep, error) {
	found, err := migrations(ctx, dataDir, databaseURL)
	steps := make([]SchemaStep, 0, len(found))
	for _, f := range found {
		step := SchemaStep{Version: f.Version, Name: f.Name}
		if f.Applied {
			at := f.AppliedAt.UnixMilli()
			step.AppliedAt = &at
		}
		steps = append(steps, step)
	}
	return steps, err
}

func migrations(ctx context.Context, dataDir, databaseURL string) ([]schema.Migration, error) {
	if databaseURL != "" {
		return postgres.Migrations(ctx, databaseURL)
	}
	path, err := database(dataDir)
	if err != nil {
		return nil, err
	}
	return sqlite.Migrations(ctx, path)
}

// SchemaUp applies pending steps and returns their number. It creates a missing SQLite file. No
// server may be using the file.
func SchemaUp(ctx context.Context, dataDir, databaseURL string) (int, error) {
	if databaseURL != "" {
		return postgres.MigrateUp(ctx, databaseURL)
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return 0, fmt.Errorf("data directory: %w", err)
	}
	n, err := sqlite.MigrateUp(ctx, filepath.Join(dataDir, DatabaseFile))
	if errors.Is(err, sqlite.ErrLocked) {
		return 0, fmt.Errorf("%w (a server updates the schema when it starts)", err)
	}
	return n, err
}

// ImportSQLite copies a SQLite file, whose server is stopped, into an empty PostgreSQL database;
// see package importer.
func ImportSQLite(ctx context.Context, file, databaseURL string, progress func(table string, rows int64)) ([]importer.Imported, error) {
	if databaseURL == "" {
		return nil, errors.New("set the PostgreSQL database with DATABASE_URL or --database-url")
	}
	return importer.Import(ctx, file, databaseURL, progress)
}

// ImportEarlier imports the earlier implementation's PostgreSQL database at sourceURL into a new
// SQLite file in dataDir, or, through such a file, into the empty PostgreSQL database at
// databaseURL.
func ImportEarlier(ctx context.Context, sourceURL, dataDir, databaseURL string, progress func(table string, rows int64)) (_ []earlier.Imported, err error) {
	if databaseURL == "" {
		if err := os.MkdirAll(dataDir, 0o700); err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		return earlier.Import(ctx, sourceURL, filepath.Join(dataDir, DatabaseFile))
	}
	dir, err := os.MkdirTemp("", "bloom-import-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, DatabaseFile)
	moved, err := earlier.Import(ctx, sourceURL, file)
	if err != nil {
		return nil, err
	}
	_, err = ImportSQLite(ctx, file, databaseURL, progress)
	return moved, err
}

// Backup copies the database to file, which must not exist, also while a server is running.
func Backup(ctx context.Context, dataDir, databaseURL, file string) error {
	if databaseURL != "" {
		return errors.New("DATABASE_URL is set; back up PostgreSQL with pg_dump, see docs/guides/postgresql.md")
	}
	path, err := database(dataDir)
	if err != nil {
		return err
	}
	return sqlite.Backup(ctx, path, file)
}

// database returns the path of an existing database.
func database(dataDir string) (string, error) {
	path := filepath.Join(dataDir, DatabaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no database in %s; set its folder with --data-dir", dataDir)
	} else if err != nil {
		return "", err
	}
	return path, nil
}

// ArtifactsDir returns the folder of large artifacts.
func ArtifactsDir(dataDir string) string { return filepath.Join(dataDir, "artifacts") }
