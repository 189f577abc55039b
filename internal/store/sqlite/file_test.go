package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestAChangedFileIsNoticed removes, replaces and truncates the file of an open store, which then
// must neither be healthy nor acknowledge what it could lose.
func TestAChangedFileIsNoticed(t *testing.T) {
	t.Parallel()
	move := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for name, harm := range map[string]func(t *testing.T, path string) (mend func()){
		"removed": func(t *testing.T, path string) func() {
			move(t, path, path+".away")
			return func() { move(t, path+".away", path) }
		},
		"replaced": func(t *testing.T, path string) func() {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			move(t, path, path+".away")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			return func() { move(t, path+".away", path) }
		},
		"truncated": func(t *testing.T, path string) func() {
			content, err := os.ReadFile(path)
			if err == nil {
				err = os.Truncate(path, 4096)
			}
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.Write(content); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "bloom.db")
			s, create := opened(t, path)
			if err := create(); err != nil {
				t.Fatal(err)
			}
			mend := harm(t, path)
			for what, err := range map[string]error{"the health check": s.Ping(t.Context()), "a new task": create()} {
				if bloom.KindOf(err) != bloom.KindUnavailable {
					t.Errorf("%s: %v", what, err)
				}
			}
			if s.WritesFail() == "" {
				t.Error("health does not say why writes fail")
			}
			mend()
			if err := create(); err != nil || s.Ping(t.Context()) != nil || s.WritesFail() != "" {
				t.Errorf("with its file again: %v, %q", err, s.WritesFail())
			}
		})
	}
}

// opened opens a store until the test ends, and returns how to create a task in it.
func opened(t *testing.T, path string) (s *sqlite.Store, create func() error) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, func() error {
		_, _, err := s.CreateTask(t.Context(), storetest.Plain("context"))
		return err
	}
}

// TestAFileThatAnotherProgramVacuums is complete, also while what was written since is only in the
// log.
func TestAFileThatAnotherProgramVacuums(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bloom.db")
	s, create := opened(t, path)
	other, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)&_pragma=wal_autocheckpoint(0)")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	run := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := other.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	const checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
	run("CREATE TABLE filler (x BLOB)", "INSERT INTO filler VALUES (zeroblob(1000000))", checkpoint)
	if err := create(); err != nil {
		t.Fatal(err)
	}
	large, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	run("DELETE FROM filler", "VACUUM", checkpoint, "INSERT INTO filler VALUES (zeroblob(100000))")
	if now, err := os.Stat(path); err != nil || now.Size() >= large.Size() {
		t.Fatalf("the file still has %d bytes, %v", now.Size(), err)
	}
	if err := create(); err != nil || s.WritesFail() != "" {
		t.Errorf("after VACUUM: %v, %q", err, s.WritesFail())
	}
}
