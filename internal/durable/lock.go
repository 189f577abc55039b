package durable

import (
	"errors"
	"os"
	"syscall"
)

// ErrLocked means that somebody else holds a lock.
var ErrLocked = errors.New("the file is locked")

// Lock is an exclusive lock of a file, which the kernel releases when the process ends.
type Lock struct{ *os.File }

// LockFile locks the file at path, readable only by its owner, and creates it if necessary. It
// returns ErrLocked, with the file to read, if it is locked already, even by this process.
func LockFile(path string) (Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return Lock{}, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return Lock{f}, ErrLocked
	}
	if err != nil {
		return Lock{}, errors.Join(err, f.Close())
	}
	return Lock{f}, nil
}

// Unlock releases the lock and closes the file. Closing alone would leave it locked for as long as
// a child process that is just being started has the file open, too.
func (l Lock) Unlock() error {
	return errors.Join(syscall.Flock(int(l.Fd()), syscall.LOCK_UN), l.Close())
}
