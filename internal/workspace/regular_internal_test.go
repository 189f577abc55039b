package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.WriteFile(at("file"), []byte("x"), 0o600), os.Mkdir(at("folder"), 0o700), syscall.Mkfifo(at("pipe"), 0o600),
		os.Symlink("pipe", at("link to a pipe")), os.Symlink("file", at("link")))
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, open := range map[string]func(name string) (*os.File, fs.FileInfo, error){
		"OpenRegular":     func(name string) (*os.File, fs.FileInfo, error) { return OpenRegular(root, name) },
		"openRegular":     func(name string) (*os.File, fs.FileInfo, error) { return openRegular(root, name) },
		"OpenRegularPath": func(name string) (*os.File, fs.FileInfo, error) { return OpenRegularPath(at(name), os.O_RDONLY) },
		"a file replaced by a pipe before it is opened": func(name string) (*os.File, fs.FileInfo, error) {
			return openIfRegular(func() (fs.FileInfo, error) { return os.Stat(at("file")) },
				func() (*os.File, error) { return os.OpenFile(at(name), os.O_RDONLY|syscall.O_NONBLOCK, 0) })
		},
	} {
		for _, kind := range []string{"file", "folder", "pipe", "link to a pipe"} {
			f, info, err := open(kind)
			if ok := err == nil && info.Mode().IsRegular(); ok != (kind == "file") || !ok && !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
			if err == nil {
				f.Close()
			}
		}
	}
	if _, _, err := OpenRegularPath(at("link"), os.O_RDONLY); !errors.Is(err, ErrNotRegular) {
		t.Errorf("OpenRegularPath follows a link: %v", err)
	}
}
