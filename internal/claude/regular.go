package claude

import (
	"io"
	"os"
	"syscall"

	"github.com/bloom-runtime/bloom/internal/workspace"
)

// openRegular opens a regular file, and nothing else: workspace.ErrNotRegular. What
// claude and the worker keep beside the working folder is within a task's reach, too: a
// pipe in its place would hold up the worker, and a device never ends.
func openRegular(path string, flag int) (*os.File, error) {
	// Before it is opened: opening a device may have effects.
	if info, err := os.Lstat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, workspace.ErrNotRegular
	}
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	// Once more: another process may have replaced it.
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		if err == nil {
			err = workspace.ErrNotRegular
		}
		return nil, err
	}
	return f, nil
}

// maxNote bounds what is read of the worker's own notes, in bytes.
const maxNote = 1 << 20

// readNote reads a small file of the worker's.
func readNote(path string) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxNote))
}
