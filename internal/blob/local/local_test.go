package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/blobtest"
	"github.com/bloom-runtime/bloom/internal/blob/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *local.Store {
	s, err := local.Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestLocalStoreMeetsTheContract(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Blobs { return open(t, filepath.Join(t.TempDir(), "artifacts")) })
}

func TestRefusedContentLeavesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := s.Put(t.Context(), "a/b", strings.NewReader("abc"), 3, strings.Repeat("0", 64)); err == nil {
		t.Fatal("content with a wrong digest was accepted")
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s was left behind", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSymlinksDoNotLeadOut(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Open(t.Context(), "file:out/secret"); err == nil {
		r.Close()
		t.Fatal("a symbolic link led out of the folder")
	}
}

// put stores some content.
func put(t *testing.T, s *local.Store, key string) string {
	t.Helper()
	const content = "abc"
	url, err := s.Put(t.Context(), key, strings.NewReader(content), 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
	if err != nil {
		t.Errorf("%s: %v", key, err)
	}
	return url
}

func TestDeletingTheLastContentRemovesItsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	first, second := put(t, s, "artifacts/task/1"), put(t, s, "artifacts/task/2")
	today := filepath.Dir(filepath.Dir(filepath.Dir(strings.TrimPrefix(first, local.Scheme))))
	for i, url := range []string{first, second, second} {
		if err := s.Delete(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, today, "artifacts", "task")); (err == nil) != (i == 0) {
			t.Errorf("the folder after deletion %d: %v", i, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, today, "artifacts")); err != nil {
		t.Errorf("the folder of all: %v", err)
	}
	// The list of an earlier day removes its empty folders.
	if err := os.Rename(filepath.Join(dir, today), filepath.Join(dir, "20260101")); err != nil {
		t.Fatal(err)
	}
	put(t, s, "artifacts/task/3")
	for _, day := range []string{"20260101", today} {
		if err := s.List(t.Context(), day, func(string, string, time.Duration) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() == "20260101" {
		t.Errorf("the folders of days: %v, %v", left, err)
	}
}

func TestContentIsStoredWhileItsFolderIsRemovedAndCreated(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 60 {
				if err := s.Delete(t.Context(), put(t, s, fmt.Sprint("artifacts/task/", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
