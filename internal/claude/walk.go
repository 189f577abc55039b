package claude

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
)

// walker walks folders below a root. It examines a limited number of entries, because tasks
// fill the folders, and stops when ctx ends.
type walker struct {
	ctx  context.Context //nolint:containedctx // lives for one search
	root *os.Root
	left int // entries that may still be examined
}

// walkBatch is how many entries of a folder are read at once.
const walkBatch = 256

// walk calls file with the name of everything below dir that is not a folder, including
// symbolic links, in no particular order. It enters the folders for which enter returns
// true. It skips unreadable folders, but fails if dir does not exist. It returns errTooMany
// when the limit is reached.
func (w *walker) walk(dir string, enter func(dir string) bool, file func(name string) error) error {
	info, err := w.root.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return nil
	}
	for folders := []string{dir}; len(folders) > 0; {
		dir, folders = folders[len(folders)-1], folders[:len(folders)-1]
		below, err := w.folder(dir, enter, file)
		if err != nil {
			return err
		}
		folders = append(folders, below...)
	}
	return nil
}

// folder examines the entries of one folder and returns the folders in it.
func (w *walker) folder(dir string, enter func(string) bool, file func(string) error) (below []string, err error) {
	opened, err := w.root.Open(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // skip an unreadable folder
	}
	defer opened.Close()
	for {
		entries, err := opened.ReadDir(walkBatch)
		for _, entry := range entries {
			if w.left--; w.left < 0 {
				return nil, errTooMany
			}
			name := path.Join(dir, entry.Name())
			if entry.IsDir() {
				if enter(name) {
					below = append(below, name)
				}
				continue
			}
			if err := file(name); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) || err != nil || len(entries) == 0 {
			return below, w.ctx.Err()
		}
		if w.ctx.Err() != nil {
			return nil, w.ctx.Err()
		}
	}
}
