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

// Limits bound an archive. Both must be set.
type Limits struct {
	Bytes   int64 // of the archive, uncompressed
	Entries int   // files, folders and links
}

// Packed is the result of Pack.
type Packed struct {
	Entries int
	// Skipped counts entries that are not in the archive although they are not ignored: sockets,
	// pipes, devices, links that lead out, unreadable files, and entries more than 256 folders
	// deep. Examples names some.
	Skipped  int
	Examples []string
}

const maxExamples = 5

// maxDepth is the maximum number of names in a path. Each is resolved separately, so deeper entries
// take ever longer to read, write and remove.
const maxDepth = 256

// Bounds of what is held in memory of a folder that a task has made.
const (
	nameBytes = 640 // of the names of entries and the targets of links, on average
	perFolder = 10  // times as many entries as in the archive may lie in one folder, ignored ones too
)

// depth returns the number of names in a path.
func depth(name string) int { return strings.Count(name, "/") + 1 }

// ErrNotRegular is returned for something that is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

var (
	errTooMany  = errors.New("too many files")
	errNames    = errors.New("the names of the files are too long together")
	errTooDeep  = fmt.Errorf("more than %d folders deep", maxDepth)
	errTooLarge = errors.New("too large")
)

// Pack writes the folder as a tar archive. The same files produce the same archive. It keeps modes,
// times and links within the folder, but not owners, hard links and extended attributes. It fails
// beyond the limits, and when a file changes in the meantime.
func Pack(ctx context.Context, to io.Writer, dir string, limits Limits) (Packed, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Packed{}, err
	}
	defer root.Close()
	ignored, err := readIgnore(root)
	if err != nil {
		return Packed{}, err
	}
	p := &packer{root: root, ignored: ignored, limits: limits, folders: map[string]bool{".": true}}
	p.out = tar.NewWriter(&bounded{to: to, left: limits.Bytes})
	err = fs.WalkDir(boundedFolders{root.FS(), perFolder * limits.Entries}, ".", func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return p.visit(name, entry, err)
	})
	if err == nil {
		err = p.out.Close()
	}
	return p.done, err
}

type packer struct {
	root    *os.Root
	ignored ignore
	limits  Limits
	out     *tar.Writer
	folders map[string]bool // in the archive
	names   int             // bytes of names so far
	done    Packed
}

// boundedFolders lists no folder that has more entries than most.
type boundedFolders struct {
	fs.FS

	most int
}

func (b boundedFolders) ReadDir(name string) (all []fs.DirEntry, err error) {
	f, err := b.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	folder, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, fs.ErrInvalid
	}
	for len(all) <= b.most {
		some, err := folder.ReadDir(1024)
		all = append(all, some...)
		if errors.Is(err, io.EOF) {
			slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: more than %d in one folder", errTooMany, b.most)
}

func (p *packer) skip(name string) {
	p.done.Skipped++
	if len(p.done.Examples) < maxExamples {
		p.done.Examples = append(p.done.Examples, name)
	}
}

func (p *packer) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case name == ".", errors.Is(err, errTooMany):
		return err
	case err != nil: // not readable
		p.skip(name)
		return nil
	case !fs.ValidPath(name):
		p.skip(strings.ToValidUTF8(name, "?"))
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if depth(name) > maxDepth {
		p.skip(name[:strings.IndexByte(name, '/')] + "/… (" + errTooDeep.Error() + ")")
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	stays, all, err := p.ignored.matches(name)
	switch {
	case err != nil:
		return err
	case all && entry.IsDir():
		return fs.SkipDir
	case stays:
		return nil
	}
	return p.add(name, entry)
}

// header writes a header, after the headers of ignored folders that have entries that are not
// ignored.
func (p *packer) header(h *tar.Header) error {
	if parent := path.Dir(strings.TrimSuffix(h.Name, "/")); !p.folders[parent] {
		info, err := p.root.Lstat(parent)
		if err != nil {
			return err
		}
		if err := p.folder(parent, info); err != nil {
			return err
		}
	}
	if p.done.Entries++; p.done.Entries > p.limits.Entries {
		return fmt.Errorf("%w: more than %d", errTooMany, p.limits.Entries)
	}
	if p.names += len(h.Name) + len(h.Linkname); p.names > nameBytes*p.limits.Entries {
		return errNames
	}
	return p.out.WriteHeader(h)
}

func (p *packer) folder(name string, info fs.FileInfo) error {
	p.folders[name] = true
	return p.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX})
}

func (p *packer) add(name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		p.skip(name)
		return nil //nolint:nilerr // removed in the meantime
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		return p.folder(name, info)
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag, h.ModTime = tar.TypeSymlink, time.Unix(0, 0) // times of links cannot be restored
		if h.Linkname, err = p.root.Readlink(name); err != nil || !staysInside(name, h.Linkname) {
			p.skip(name)
			return nil //nolint:nilerr // skipped and reported
		}
		return p.header(h)
	case info.Mode().IsRegular():
		return p.file(name, h)
	}
	p.skip(name)
	return nil
}

func (p *packer) file(name string, h *tar.Header) error {
	f, info, err := openRegular(p.root, name)
	if err != nil {
		p.skip(name)
		return nil //nolint:nilerr // skipped and reported
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := p.header(h); err != nil {
		return err
	}
	if _, err := io.CopyN(p.out, f, h.Size); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
