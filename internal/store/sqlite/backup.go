package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy of the database to path while the store goes
// on working. A file that is already there is never touched. When Backup
// returns nil the copy is on disk whole; until then nothing has the name.
func (s *Store) Backup(ctx context.Context, path string) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("backup: %s is already there: %w", path, fs.ErrExist)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".bloom-backup-")
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := s.copyTo(filepath.Join(folder, "db")); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := syncFile(filepath.Join(folder, "db")); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	// A link, not a rename: it fails when the name was taken meanwhile.
	if err := os.Link(filepath.Join(folder, "db"), path); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return syncFile(filepath.Dir(path))
}

// copyTo reads through a connection of its own: a copy of a large database
// takes long, and the readers' pool is for callers who wait.
func (s *Store) copyTo(path string) (err error) {
	c, err := dial(dsn(s.cfg.Path, "ro"), "busy_timeout = 10000", "cache_size = -1024")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	_, err = c.exec(`VACUUM INTO ?`, path)
	return err
}

// syncFile makes a file, or a folder's names, survive a power failure.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
