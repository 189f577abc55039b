//go:build unix

package sqlite

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// lock takes the file beside the database that says a process has it open. The
// kernel lets go of it when the process ends, however it ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file of the database: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := make([]byte, 32)
		n, _ := f.ReadAt(holder, 0)
		_ = f.Close()
		who := "another process"
		if pid := strings.TrimSpace(string(holder[:n])); pid != "" {
			who = "process " + pid
		}
		return nil, fmt.Errorf("%w: %s has %s open; stop it, or choose another --data-dir", ErrLocked, who, path)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	// SQLite gives the files beside it the database's own mode.
	if err := durable.Private(path); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
