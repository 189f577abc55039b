package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SyncTree makes the files below a folder survive a power failure. It may wait for other
// files of the same file system.
func SyncTree(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
