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

// SchemaStatus lists the schema's steps; also while a server is running.
func SchemaStatus(ctx context.Context, dataDir, databaseURL string) ([]SchemaStep, error) {
	path, err := database(dataDir, databaseURL)
	if err != nil {
		return nil, err
	}
	found, err := sqlite.Migrations(ctx, path)
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

// SchemaUp applies what is pending, making the database when there is none, and
// tells how many steps that were. No server may be running.
func SchemaUp(ctx context.Context, dataDir, databaseURL string) (int, error) {
	if databaseURL != "" {
		return 0, errPostgres
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return 0, fmt.Errorf("data folder: %w", err)
	}
	n, err := sqlite.MigrateUp(ctx, filepath.Join(dataDir, DatabaseFile))
	if errors.Is(err, sqlite.ErrLocked) {
		return 0, fmt.Errorf("%w by a running bloom, which has brought it up to date; stop it first", err)
	}
	return n, err
}

// Backup copies the database to file, which must not exist; also while a server
// is running.
func Backup(ctx context.Context, dataDir, databaseURL, file string) error {
	path, err := database(dataDir, databaseURL)
	if errors.Is(err, errPostgres) {
		return fmt.Errorf("%w (PostgreSQL has a tool of its own: pg_dump)", err)
	}
	if err != nil {
		return err
	}
	return sqlite.Backup(ctx, path, file)
}

// database is the path of a database that is there.
func database(dataDir, databaseURL string) (string, error) {
	if databaseURL != "" {
		return "", errPostgres
	}
	path := filepath.Join(dataDir, DatabaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no database in %s; name its folder with --data-dir", dataDir)
	} else if err != nil {
		return "", err
	}
	return path, nil
}

// ArtifactsDir is where large artifacts lie.
func ArtifactsDir(dataDir string) string { return filepath.Join(dataDir, "artifacts") }
