package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Unpack extracts an archive of Pack into an empty folder. It reads from to its end and refuses
// what Pack does not write: names and links that lead out, hard links, devices, duplicate names,
// paths more than 256 folders deep. On an error the caller must remove the extracted entries.
func Unpack(ctx context.Context, from io.Reader, dir string, limits Limits) (entries int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	u := &unpacker{ctx: ctx, root: root, most: limits.Entries, made: map[string]bool{}}
	in := &io.LimitedReader{R: from, N: limits.Bytes + 1}
	archive := tar.NewReader(in)
	left := limits.Bytes // counts sparse zeros, too
	names := nameBytes * limits.Entries
	for {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			_, err := io.Copy(io.Discard, in) // the digest covers the bytes after the archive's end
			if in.N <= 0 {
				err = errTooLarge
			}
			return len(u.made), errors.Join(err, u.finish())
		case in.N <= 0:
			return len(u.made), errTooLarge
		case err != nil:
			return len(u.made), err
		case ctx.Err() != nil:
			return len(u.made), context.Cause(ctx)
		}
		if left -= h.Size; left < 0 {
			return len(u.made), errTooLarge
		}
		if names -= len(h.Name) + len(h.Linkname); names < 0 {
			return len(u.made), errNames
		}
		if err := u.add(h, archive); err != nil {
			return len(u.made), fmt.Errorf("%q: %w", h.Name, err)
		}
	}
}

type unpacker struct {
	ctx   context.Context //nolint:containedctx // of one call
	root  *os.Root
	most  int             // entries, including implied folders
	made  map[string]bool // entries by name
	links []link
	dirs  []dir
}

type (
	link struct{ name, target string }
	dir  struct {
		name string
		mode fs.FileMode
		at   time.Time
	}
)

// add extracts one entry. Links and the modes of folders come last, so that nothing is written
// through a link.
func (u *unpacker) add(h *tar.Header, content io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, "\x00") {
		return errors.New("not a name within the folder")
	}
	if depth(name) > maxDepth {
		return errTooDeep
	}
	mode := fs.FileMode(h.Mode) & fs.ModePerm
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		u.dirs = append(u.dirs, dir{name, mode, h.ModTime})
		return u.folder(name)
	}
	if err := u.count(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return u.file(name, mode, h, content)
	case tar.TypeSymlink:
		if !staysInside(name, h.Linkname) {
			return fmt.Errorf("a link to %q, which is not in the folder", h.Linkname)
		}
		u.links = append(u.links, link{name, h.Linkname})
		return nil
	}
	return fmt.Errorf("an entry of type %q", h.Typeflag)
}

// count counts a new name.
func (u *unpacker) count(name string) error {
	if u.made[name] = true; len(u.made) > u.most {
		return errTooMany
	}
	return nil
}

// folder creates a folder and its parents if necessary.
func (u *unpacker) folder(name string) error {
	if name == "." || u.made[name] {
		if info, err := u.root.Lstat(name); err != nil || info.IsDir() {
			return err
		}
		return fs.ErrExist
	}
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	if err := u.count(name); err != nil {
		return err
	}
	return u.root.Mkdir(name, 0o700)
}

func (u *unpacker) file(name string, mode fs.FileMode, h *tar.Header, content io.Reader) error {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

func (u *unpacker) finish() error {
	for _, l := range u.links {
		if err := u.root.Symlink(l.target, l.name); err != nil {
			return err
		}
	}
	for _, d := range slices.Backward(u.dirs) { // the deepest first
		info, err := u.root.Lstat(d.name)
		if err == nil && !info.IsDir() {
			err = fs.ErrExist // a link has the same name
		}
		if err != nil {
			return err
		}
		if err := errors.Join(u.root.Chtimes(d.name, d.at, d.at), u.root.Chmod(d.name, d.mode)); err != nil {
			return err
		}
	}
	return nil
}
