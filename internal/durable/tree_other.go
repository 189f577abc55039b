//go:build !linux

package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// SyncTree makes the files below a folder survive a power failure, except those that cannot
// be opened.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && path != dir {
			return fs.SkipDir // a folder, which cannot be packed either
		}
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return nil //nolint:nilerr // nor can it be packed
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
