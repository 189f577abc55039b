package schema_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver

	"github.com/bloom-runtime/bloom/internal/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	first  = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE one (n INTEGER);\n")}
	second = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE two (n INTEGER);\n")}
	older  = fstest.MapFS{"migrations/00001_one.sql": first}
	newer  = fstest.MapFS{"migrations/00001_one.sql": first, "migrations/00002_two.sql": second}
)

func database(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "bloom.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

func known(t *testing.T, db *sql.DB, files fstest.MapFS) *schema.Schema {
	t.Helper()
	s, err := schema.SQLite(db, files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// up applies the pending steps and checks their number.
func up(t *testing.T, s *schema.Schema, want int) {
	t.Helper()
	if n, err := s.Up(t.Context()); err != nil || n != want {
		t.Fatalf("%d steps were applied, %v; want %d", n, err, want)
	}
}

func TestEachStepIsAppliedOnce(t *testing.T) {
	t.Parallel()
	db := database(t)
	up(t, known(t, db, older), 1)
	s := known(t, db, newer)
	steps, err := s.Migrations(t.Context())
	if err != nil || len(steps) != 2 {
		t.Fatalf("%+v, %v", steps, err)
	}
	if a := steps[0]; a.Version != 1 || a.Name != "00001_one.sql" || !a.Applied || a.AppliedAt.IsZero() {
		t.Errorf("the first step is %+v", a)
	}
	if b := steps[1]; b.Version != 2 || b.Applied || !b.AppliedAt.IsZero() {
		t.Errorf("the second step is %+v", b)
	}
	up(t, s, 1)
	up(t, s, 0)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO two VALUES (1)`); err != nil {
		t.Error(err)
	}
}

func TestADatabaseOfANewerProgramIsLeftAlone(t *testing.T) {
	t.Parallel()
	db := database(t)
	up(t, known(t, db, newer), 2)
	if n, err := known(t, db, older).Up(t.Context()); !errors.Is(err, schema.ErrNewerSchema) || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestAFailingStepIsReported(t *testing.T) {
	t.Parallel()
	db := database(t)
	broken := fstest.MapFS{"migrations/00001_one.sql": first, "migrations/00002_two.sql": {Data: []byte("-- +goose Up\nCREATE TABLE one (n INTEGER);\n")}}
	if _, err := known(t, db, broken).Up(t.Context()); err == nil {
		t.Fatal("a table was made twice")
	}
	up(t, known(t, db, newer), 1)
}
