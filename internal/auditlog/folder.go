package auditlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// Folder stores files in a local or mounted folder.
type Folder struct{ dir string }

var _ Files = (*Folder)(nil)

// OpenFolder creates the folder if it does not exist, and checks that it is writable.
func OpenFolder(dir string) (*Folder, error) {
	f := &Folder{dir}
	if err := durable.MkdirAll(filepath.Join(dir, Root)); err != nil {
		return nil, err
	}
	probe, err := os.CreateTemp(filepath.Join(dir, Root), ".probe-*")
	if err != nil {
		return nil, err
	}
	return f, errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// ReadFolder opens an existing folder for reading.
func ReadFolder(dir string) (*Folder, error) {
	if _, err := os.Stat(filepath.Join(dir, Root)); err != nil {
		return nil, fmt.Errorf("no exported audit: %w", err)
	}
	return &Folder{dir}, nil
}

func (f *Folder) String() string { return f.dir }

// Create writes a new file.
func (f *Folder) Create(_ context.Context, name string, content []byte) error {
	full := filepath.Join(f.dir, filepath.FromSlash(name))
	if err := durable.MkdirAll(filepath.Dir(full)); err != nil {
		return err
	}
	err := durable.Create(full, content)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	return err
}

// Open streams a file.
func (f *Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(f.dir, filepath.FromSlash(name)))
}

// remove deletes a file, and its folders if they are empty.
func (f *Folder) remove(name string) error {
	err := os.Remove(filepath.Join(f.dir, filepath.FromSlash(name)))
	for dir := path.Dir(name); err == nil && dir != Root; dir = path.Dir(dir) {
		if os.Remove(filepath.Join(f.dir, filepath.FromSlash(dir))) != nil {
			break // not empty
		}
	}
	return err
}

// List calls fn with the names of all files.
func (f *Folder) List(ctx context.Context, fn func(string) error) error {
	return fs.WalkDir(os.DirFS(f.dir), Root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			return errors.Join(err, ctx.Err())
		}
		return fn(name)
	})
}
