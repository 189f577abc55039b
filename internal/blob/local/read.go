package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
)

// Open streams the content at url.
func (s *Store) Open(_ context.Context, url string) (io.ReadCloser, error) {
	key, err := keyOf(url)
	if err != nil {
		return nil, err
	}
	f, err := s.root.Open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, bloom.NotFound("Artifact content")
	}
	if err != nil {
		return nil, err // a nil *os.File must not become a reader
	}
	return f, nil
}

// Stat returns the key and the size of the content at url.
func (s *Store) Stat(_ context.Context, url string) (string, int64, error) {
	key, err := keyOf(url)
	if err != nil {
		return "", 0, bloom.NotFound("Artifact content")
	}
	info, err := s.root.Stat(key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.area.Key(key), 0, bloom.NotFound("Artifact content")
	case err != nil:
		return s.area.Key(key), 0, err
	}
	return s.area.Key(key), info.Size(), nil
}

// OpenRange streams a part of the content at url.
func (s *Store) OpenRange(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	r, err := s.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	f := r.(*os.File)
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if length < 0 {
		return f, nil
	}
	return part{io.LimitReader(f, length), f}, nil
}

type part struct {
	io.Reader
	io.Closer
}

// List walks the folder of the area or of one day. It removes abandoned temporary files, and the
// empty folders of an earlier day.
func (s *Store) List(ctx context.Context, day string, fn func(url, key string, age time.Duration) error) error {
	dir := path.Clean(s.area.Prefix(day))
	err := fs.WalkDir(s.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted in the meantime
		}
		if err = errors.Join(err, ctx.Err()); err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		age := time.Since(info.ModTime())
		if strings.HasPrefix(path.Base(name), tempPrefix) {
			if age > abandonedAfter {
				return s.remove(name)
			}
			return nil
		}
		return fn(Scheme+name, s.area.Key(name), age)
	})
	if err == nil && day != "" && day < blob.Day(time.Now()) {
		kinds, _ := fs.ReadDir(s.root.FS(), dir)
		for _, kind := range kinds {
			_ = s.root.Remove(path.Join(dir, kind.Name())) // fails if it is not empty
		}
		_ = s.root.Remove(dir)
	}
	return err
}
