package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// holds checks that a file is the only one in its folder, and its content.
func holds(t *testing.T, path, want string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil || string(raw) != want {
		t.Errorf("the file holds %q, %v; want %q", raw, err, want)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("the folder holds %v, %v", files, err)
	}
}

func TestAFileIsReplacedWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"the first, which is longer", "second", ""} {
		if err := durable.Replace(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		holds(t, path, content)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTheFirstFileWins(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := durable.Create(path, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := durable.Create(path, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	holds(t, path, "first")
}

func TestOneOfManyCreates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	made := make(chan string, 8)
	var all sync.WaitGroup
	for _, content := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		all.Go(func() {
			switch err := durable.Create(path, []byte(content)); {
			case err == nil:
				made <- content
			case !errors.Is(err, fs.ErrExist):
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	if len(made) != 1 {
		t.Fatalf("%d have made the file", len(made))
	}
	holds(t, path, <-made)
}

func TestWhatCannotBePlacedLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Replace(filepath.Join(dir, "taken"), []byte("x")); err == nil {
		t.Error("a folder was replaced")
	}
	if err := durable.Replace(filepath.Join(dir, "no", "file"), []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the folder holds %v, %v", files, err)
	}
}

func TestAFolderIsMadeWithItsParents(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "one", "two", "three")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := durable.MkdirAll(dir); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for d := dir; d != base; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", d, info, err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.MkdirAll(filepath.Join(base, "file", "dir")); err == nil {
		t.Error("a folder was made in a file")
	}
}

func TestALockIsFreeOnceItIsUnlocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := durable.LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := durable.LockFile(path); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("it is locked twice: %v, %v", second, err)
	} else {
		_ = second.Close()
	}
	inherited, err := syscall.Dup(int(first.Fd())) // as a child that is being started has it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }()
	if err := first.Unlock(); err != nil {
		t.Error(err)
	}
	again, err := durable.LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(); err != nil {
		t.Error(err)
	}
}
