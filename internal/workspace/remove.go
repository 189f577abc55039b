package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

const (
	// removeAtOnce is how many entries of a folder are listed at once.
	removeAtOnce = 256
	// removeDepth is from how many names on a folder is moved to the top before it is
	// removed: each name is resolved from there.
	removeDepth = 8
)

// Remove removes a folder, also one whose parts are write-protected. One that is not there
// is no error. When ctx ends it stops, and what is left is for another call.
func Remove(ctx context.Context, dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return os.Remove(dir)
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := parent.Chmod(filepath.Base(dir), 0o700); err != nil {
		return err
	}
	root, err := parent.OpenRoot(filepath.Base(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := (&remover{ctx: ctx, root: root}).clear("."); err != nil {
		return err
	}
	return gone(os.Remove(dir))
}

type remover struct {
	ctx   context.Context //nolint:containedctx // of one call
	root  *os.Root
	moved int
}

// clear removes what lies in a folder.
func (r *remover) clear(dir string) error {
	for {
		entries, err := r.list(dir)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			if r.ctx.Err() != nil {
				return context.Cause(r.ctx)
			}
			if err := r.remove(path.Join(dir, e.Name()), e.IsDir()); err != nil {
				return err
			}
		}
		if len(entries) < removeAtOnce && dir != "." { // where folders are moved to
			return nil
		}
	}
}

func (r *remover) list(dir string) ([]fs.DirEntry, error) {
	f, err := r.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(removeAtOnce)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}

func (r *remover) remove(name string, isDir bool) error {
	if !isDir {
		return gone(r.root.Remove(name))
	}
	if err := r.root.Chmod(name, 0o700); err != nil { // before it is listed
		return gone(err)
	}
	if depth(name) >= removeDepth {
		return r.toTop(name)
	}
	if err := r.clear(name); err != nil {
		return gone(err)
	}
	return gone(r.root.Remove(name))
}

// toTop moves a folder to where it is listed once more.
func (r *remover) toTop(name string) error {
	for {
		r.moved++
		to := fmt.Sprintf(".removing-%d", r.moved)
		if _, err := r.root.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return gone(r.root.Rename(name, to))
		}
	}
}

// gone takes what somebody else has removed for removed.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
