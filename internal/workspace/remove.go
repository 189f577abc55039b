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
	// removeAtOnce is how many entries of a folder are listed at a time.
	removeAtOnce = 256
	// removeDepth is the depth at which a folder is moved to the top before it is removed, because
	// each name is resolved from there.
	removeDepth = 8
)

// Remove deletes a folder, even if parts are write-protected. A missing folder is not an error.
// When ctx ends it stops, and another call can continue.
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

// clear deletes what is in a folder.
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
		if len(entries) < removeAtOnce && dir != "." { // the top, to which folders are moved
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
	if err := r.root.Chmod(name, 0o700); err != nil { // so that it can be listed
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

// toTop moves a folder to the top, which is listed again.
func (r *remover) toTop(name string) error {
	for {
		r.moved++
		to := fmt.Sprintf(".removing-%d", r.moved)
		if _, err := r.root.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return gone(r.root.Rename(name, to))
		}
	}
}

// gone ignores the error that something no longer exists.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
