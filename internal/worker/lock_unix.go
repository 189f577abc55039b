//go:build unix

package worker

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile takes a lock that the system releases when the process ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("worker: lock the state folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrStateInUse
		}
		return nil, fmt.Errorf("worker: lock the state folder: %w", err)
	}
	return f, nil
}

// inodeOf returns a file's inode number.
func inodeOf(f *os.File) (uint64, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}
