package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestTheSearchIndexIsRebuilt when its file is missing, invalid, or does not match the database, as
// after a power failure that lost its last changes.
func TestTheSearchIndexIsRebuilt(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, path string) error{
		"its file was deleted":     func(_ *testing.T, path string) error { return os.Remove(path) },
		"its file is not an index": func(_ *testing.T, path string) error { return os.WriteFile(path, []byte("walrus"), 0o600) },
		"it was truncated":         func(_ *testing.T, path string) error { return os.Truncate(path, 5000) },
		"it belongs to another database": func(t *testing.T, path string) error {
			other := filepath.Join(t.TempDir(), "bloom.db")
			searched(t, other, "a seal", "another seal", "a third seal")
			content, err := os.ReadFile(other + ".search")
			return errors.Join(err, os.WriteFile(path, content, 0o600))
		},
		"its last changes were lost": func(t *testing.T, path string) error {
			before, err := os.ReadFile(path)
			searched(t, strings.TrimSuffix(path, ".search"), "a young walrus")
			return errors.Join(err, os.WriteFile(path, before, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "bloom.db")
			searched(t, path, "an old walrus")
			if err := harm(t, path+".search"); err != nil {
				t.Fatal(err)
			}
			s := openAt(t, path, storetest.NewClock())
			indexAll(t, s)
			all, _, err := s.Tasks(t.Context(), bloom.TaskQuery{})
			if err != nil {
				t.Fatal(err)
			}
			for text, want := range map[string]int{"walrus": len(all), "seal": 0} {
				if got, _, err := s.Tasks(t.Context(), bloom.TaskQuery{Text: text}); err != nil || len(got) != want {
					t.Errorf("%q: found %d, %v, want %d", text, len(got), err, want)
				}
			}
		})
	}
}

// searched creates a database with a task for each prompt, all of them indexed.
func searched(t *testing.T, path string, prompts ...string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Clock: storetest.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	for _, prompt := range prompts {
		n := storetest.Plain("zoo")
		n.Spec.Prompt = prompt
		if _, _, err := s.CreateTask(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		indexAll(t, s) // one round each
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func indexAll(t *testing.T, s *sqlite.Store) {
	t.Helper()
	for more := true; more; {
		var err error
		_, more, err = s.IndexTasks(t.Context(), func(context.Context, string, int) (string, error) { return "", errors.New("unavailable") })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// As many queries as there are readers end with their requests, and others can read again.
func TestQueriesEndWithTheirRequests(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "bloom.db"), storetest.NewClock())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, sqlite.DefaultReaders)
	for range cap(ended) {
		go func() { ended <- s.ReadForever(ctx) }()
	}
	busy := func() bool { return s.Pools()[0].Used == cap(ended) }
	for deadline := time.Now().Add(time.Minute); !busy(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the queries do not run")
		}
	}
	cancel()
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a query ended with %v", err)
		}
	}
	if _, err := s.Stats(t.Context()); err != nil {
		t.Error(err)
	}
}
