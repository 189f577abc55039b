// Package durable puts small files in place so that a crash or a power failure
// leaves each of them whole or not there at all. It knows nothing of what is in
// them. It stays ours because google/renameio neither syncs the folder nor can refuse
// to replace a file that is there (Create).
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Half is the pattern of the names under which files lie in their folder until
// they are whole. What a crash has left of them may be removed.
const Half = ".tmp-*"

// Replace writes the file at path, readable by its owner only, in place of the one
// that is there. When it has returned nil the file survives a power failure. Of
// several at once one stands.
func Replace(path string, data []byte) error { return put(path, data, os.Rename) }

// Create does the same unless there is a file already, which stays: fs.ErrExist.
// Of several at once the first stands.
func Create(path string, data []byte) error { return put(path, data, os.Link) }

// Private makes the file at path readable by its owner only, and makes an empty one
// where there is none.
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
	half, err := os.CreateTemp(dir, Half) // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(half.Name()) // in vain after a rename
	_, err = half.Write(data)
	if err == nil {
		err = half.Sync()
	}
	if err := errors.Join(err, half.Close()); err != nil {
		return err
	}
	if err := place(half.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes what was placed in a folder survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
