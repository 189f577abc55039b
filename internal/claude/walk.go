package claude

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
)

// walker goes through folders below a root. It looks at a bounded number of
// entries and stops when ctx ends: folders are a task's to fill.
type walker struct {
	ctx  context.Context //nolint:containedctx // lives for one search
	root *os.Root
	left int // entries that may still be looked at
}

// walkBatch is how many entries of a folder are read at once.
const walkBatch = 256

// walk calls file with the name of everything below dir that is no folder,
// symbolic links included, in no particular order. enter says whether a folder is
// looked into. A folder that cannot be read is skipped, but dir itself must be
// there. It returns errTooMany when the bound is reached.
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

// folder looks at the entries of one folder and returns the folders in it.
func (w *walker) folder(dir string, enter func(string) bool, file func(string) error) (below []string, err error) {
	opened, err := w.root.Open(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // one unreadable folder does not spoil the others
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
