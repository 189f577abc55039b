package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// Backup writes a consistent copy of the database at source to path, even while a
// process has the database open. It blocks no writer, and never overwrites a file.
// The file at path appears only when the copy is complete; when Backup returns nil it
// is on disk.
func Backup(ctx context.Context, source, path string) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("backup: %w: %s; choose another name, or remove it", fs.ErrExist, path)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".bloom-backup-")
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := durable.Private(filepath.Join(folder, "db")); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := copyTo(source, filepath.Join(folder, "db")); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := syncFile(filepath.Join(folder, "db")); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	// Unlike a rename, a link fails if the name exists by now.
	if err := os.Link(filepath.Join(folder, "db"), path); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return syncFile(filepath.Dir(path))
}

func copyTo(source, path string) (err error) {
	c, err := dial(dsn(source, "ro"), "busy_timeout = 10000", "cache_size = -1024")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	_, err = c.exec(`VACUUM INTO ?`, path)
	return err
}

// syncFile makes a file, or a folder's entries, survive a power failure.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
