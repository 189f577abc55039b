package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// lock locks the file beside the database that marks it as open. The kernel releases
// the lock when the process ends.
func lock(path string) (durable.Lock, error) {
	f, err := durable.LockFile(path + ".lock")
	if errors.Is(err, durable.ErrLocked) {
		holder := make([]byte, 32)
		n, _ := f.ReadAt(holder, 0)
		_ = f.Close()
		who := "another process"
		if pid := strings.TrimSpace(string(holder[:n])); pid != "" {
			who = "process " + pid
		}
		return f, fmt.Errorf("%w: %s has %s open; stop it, or choose another --data-dir", ErrLocked, who, path)
	}
	if err != nil {
		return f, fmt.Errorf("lock the database: %w", err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	// SQLite creates its other files with the mode of the database.
	if err := errors.Join(durable.Private(path), usable(path+"-wal"), usable(path+"-shm")); err != nil {
		return f, errors.Join(err, f.Unlock())
	}
	return f, nil
}

// usable names the file that may not be written, which SQLite does not.
func usable(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}
