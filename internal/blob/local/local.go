// Package local keeps artifact content in a folder of this machine. A URL is
// "file:" and the key: relative to the folder, so that the folder can move.
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

	"github.com/bloom-runtime/bloom"
)

// Scheme begins every URL that Put gives.
const Scheme = "file:"

// leftover is how old something half written has to be: nobody writes for so long.
const leftover = 30 * time.Hour

// tempPrefix begins the names of what is being written.
const tempPrefix = ".put-"

// Store is a bloom.Blobs in a folder. Nothing outside of it can be reached,
// whatever a key or a symbolic link says. It is safe for concurrent use.
type Store struct {
	root   *os.Root
	probed probed
}

var _ bloom.Blobs = (*Store)(nil)

// Open uses the folder, which it creates (0700) when there is none.
func Open(folder string) (*Store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the artifact folder: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open the artifact folder: %w", err)
	}
	return &Store{root: root}, nil
}

// Close lets go of the folder.
func (s *Store) Close() error { return s.root.Close() }

// Put writes content beside its place, syncs it, moves it there and syncs the
// folder: after a power failure the key holds all of it or what it held before.
func (s *Store) Put(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	if err := bloom.CheckBlobKey(key); err != nil {
		return "", err
	}
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

// create makes a file and its folder, once more when a deletion has just taken the
// folder away for being empty.
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

// write fills f and closes it.
func write(ctx context.Context, f *os.File, content io.Reader, size int64, sum string) error {
	hash := sha256.New()
	// One byte more than announced is enough to know that it is too long.
	n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(&cancellable{ctx, content}, size+1))
	switch {
	case err != nil:
	case n != size:
		err = fmt.Errorf("%w: it has not %d bytes", bloom.ErrContentMismatch, size)
	case !strings.EqualFold(hex.EncodeToString(hash.Sum(nil)), sum):
		err = fmt.Errorf("%w: it has another digest", bloom.ErrContentMismatch)
	default:
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// cancellable ends a copy whose caller is gone.
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

// makeDir makes dir and syncs each folder that got a new entry: a file whose
// folder is lost with the power is lost too.
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

// Delete removes what lies at url, and the folder it lay in when that is empty
// now: a task's folder would outlive its task for ever.
func (s *Store) Delete(_ context.Context, url string) error {
	key, err := keyOf(url)
	if err != nil {
		return err
	}
	if err := s.remove(key); err != nil {
		return err
	}
	if dir := path.Dir(key); dir != "." {
		_ = s.root.Remove(dir) // mostly it holds something else, or is gone
	}
	return nil
}

func keyOf(url string) (string, error) {
	key, ok := strings.CutPrefix(url, Scheme)
	if !ok {
		return "", fmt.Errorf("the local artifact store has no %q", url)
	}
	return key, bloom.CheckBlobKey(key)
}
