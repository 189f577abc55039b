// Package local stores artifact content in a folder of this machine. A URL is "file:" and the key,
// relative to the folder, so that the folder can be moved.
package local

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/blob"
)

// Scheme is the prefix of every URL that Put returns.
const Scheme = "file:"

// abandonedAfter is the age after which a temporary file counts as abandoned: no write takes as
// long.
const abandonedAfter = 30 * time.Hour

// tempPrefix is the prefix of the names of temporary files.
const tempPrefix = ".put-"

// Store is a blob.Blobs in a folder. No key or symbolic link can reach anything outside of it. It
// is safe for concurrent use.
type Store struct {
	root   *os.Root
	area   blob.Area
	probed lastProbe
}

var _ blob.Blobs = (*Store)(nil)

// Open opens the area of the folder, which it creates (0700) if it does not exist.
func Open(folder string, area blob.Area) (*Store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("create the artifact folder: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open the artifact folder: %w", err)
	}
	return &Store{root: root, area: area}, nil
}

// Close closes the folder.
func (s *Store) Close() error { return s.root.Close() }

// Put writes content to a temporary file, syncs it, renames it and syncs the folder: after a power
// failure, the key has either all of it or its previous content.
func (s *Store) Put(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	if err := blob.CheckKey(key); err != nil {
		return "", err
	}
	key = s.area.Place(key)
	dir := path.Dir(key)
	tmp := path.Join(dir, tempPrefix+rand.Text())
	f, err := s.create(tmp)
	if err != nil {
		return "", err
	}
	if err := write(ctx, f, content, size, sum); err != nil {
		return "", errors.Join(err, s.remove(tmp))
	}
	if err := s.root.Rename(tmp, key); err != nil {
		return "", errors.Join(err, s.remove(tmp))
	}
	if err := s.syncDir(dir); err != nil {
		return "", err
	}
	return Scheme + key, nil
}

// create creates a file and its folder, and retries if a deletion has just removed the empty
// folder.
func (s *Store) create(name string) (f *os.File, err error) {
	for range 10 {
		if err := s.makeDir(path.Dir(name)); err != nil {
			return nil, err
		}
		f, err = s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return f, err
}

// write copies content to f and closes it.
func write(ctx context.Context, f *os.File, content io.Reader, size int64, sum string) error {
	hash := sha256.New()
	// One byte more than the stated size is enough to detect that it is too long.
	n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(&cancellable{ctx, content}, size+1))
	switch {
	case err != nil:
	case n != size:
		err = fmt.Errorf("%w: its size is not %d bytes", blob.ErrMismatch, size)
	case !strings.EqualFold(hex.EncodeToString(hash.Sum(nil)), sum):
		err = fmt.Errorf("%w: its digest differs", blob.ErrMismatch)
	default:
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// cancellable ends a copy when its context ends.
type cancellable struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// makeDir creates dir and syncs each folder that got a new entry: a power failure that loses a
// folder loses its files.
func (s *Store) makeDir(dir string) error {
	if _, err := s.root.Stat(dir); err == nil {
		return nil
	}
	if err := s.root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for d := dir; d != "."; {
		d = path.Dir(d)
		if err := s.syncDir(d); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) syncDir(dir string) error {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *Store) remove(name string) error {
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Delete removes the content at url, and its folder if that is now empty, so that no folders of
// removed tasks accumulate.
func (s *Store) Delete(_ context.Context, url string) error {
	key, err := keyOf(url)
	if err != nil {
		return err
	}
	if err := s.remove(key); err != nil {
		return err
	}
	if dir := path.Dir(key); dir != "." {
		_ = s.root.Remove(dir) // fails if it is not empty
	}
	return nil
}

func keyOf(url string) (string, error) {
	key, ok := strings.CutPrefix(url, Scheme)
	if !ok {
		return "", fmt.Errorf("the local artifact store has no %q", url)
	}
	return key, blob.CheckKey(key)
}
