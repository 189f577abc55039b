package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// TestAnOrderToldOfBeforeTheStepIsNotCarriedOutTwice takes a file back to when the
// number lay with the control plane's.
func TestAnOrderToldOfBeforeTheStepIsNotCarriedOutTwice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bloom.db")
	s := openAt(t, path, nil)
	if _, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w"}, "w"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`UPDATE workers SET followed_order = 21`, `ALTER TABLE workers DROP COLUMN told_order`, `DELETE FROM goose_db_version WHERE version_id >= 4`,
	} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := sqlite.MigrateUp(t.Context(), path); err != nil || n == 0 {
		t.Fatalf("%d steps, %v", n, err)
	}
	s = openAt(t, path, nil)
	if w, err := s.FollowDrain(t.Context(), "w", bloom.DrainOrder{Drain: true, Number: 21}, "membridge"); err != nil || w.Draining {
		t.Errorf("%+v, %v", w, err)
	}
}
