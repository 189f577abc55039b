package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// OpenRegular opens a regular file in the folder, and nothing else: ErrNotRegular. It follows links
// that stay inside. It never blocks, as opening a named pipe would.
func OpenRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	return openIfRegular(func() (fs.FileInfo, error) { return root.Stat(name) },
		func() (*os.File, error) { return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) })
}

// OpenRegularPath is OpenRegular for a path that is not below a root. flag is os.O_RDONLY or
// os.O_RDWR. It does not follow a link at the path's end.
func OpenRegularPath(path string, flag int) (*os.File, fs.FileInfo, error) {
	return openIfRegular(func() (fs.FileInfo, error) { return os.Lstat(path) },
		func() (*os.File, error) { return os.OpenFile(path, flag|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0) })
}

// openRegular is OpenRegular without following a link.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	return openIfRegular(func() (fs.FileInfo, error) { return root.Lstat(name) },
		func() (*os.File, error) { return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) })
}

func openIfRegular(stat func() (fs.FileInfo, error), open func() (*os.File, error)) (*os.File, fs.FileInfo, error) {
	// Check first: opening a device may have effects.
	if info, err := stat(); err != nil {
		return nil, nil, err
	} else if !info.Mode().IsRegular() {
		return nil, nil, ErrNotRegular
	}
	f, err := open()
	if err != nil {
		return nil, nil, err
	}
	// Check again: another process may have replaced it.
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}
