// Package durable writes small files atomically and durably: after a crash or a power failure each
// file is complete or absent. google/renameio was not used because it neither syncs the folder nor
// can refuse to replace an existing file (Create).
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// TempPattern is the pattern of temporary files in the target folder. A crash may leave some, which
// may be deleted.
const TempPattern = ".tmp-*"

// Replace writes the file at path, readable only by its owner, replacing an existing one. When it
// returns nil, the file survives a power failure. Of concurrent calls one wins.
func Replace(path string, data []byte) error { return put(path, data, os.Rename) }

// Create is like Replace but fails with fs.ErrExist if the file exists. Of concurrent calls the
// first wins.
func Create(path string, data []byte) error { return put(path, data, os.Link) }

// Private makes the file at path readable only by its owner, and creates an empty one if necessary.
func Private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	return errors.Join(err, f.Close())
}

func put(path string, data []byte, place func(from, to string) error) error {
	dir := filepath.Dir(path)
	temp, err := os.CreateTemp(dir, TempPattern) // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails after a rename
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := place(temp.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// MkdirAll creates a folder, readable only by its owner, and its parents, so that they survive a
// power failure.
func MkdirAll(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return fs.ErrNotExist
	}
	if err := MkdirAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}

// SyncDir makes new names in a folder survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
