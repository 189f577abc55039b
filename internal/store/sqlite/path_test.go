package sqlite_test

import (
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// A data directory may be given as ".": every way to open the database must accept that.
func TestARelativePathWorks(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := sqlite.MigrateUp(t.Context(), "bloom.db"); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Migrations(t.Context(), "bloom.db"); err != nil {
		t.Fatal(err)
	}
	// Nobody has it open now, and a backup must not write to it.
	if err := sqlite.Backup(t.Context(), "bloom.db", "copy.db"); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, "copy.db", nil)
	if tasks, _, err := s.Tasks(t.Context(), bloom.TaskQuery{}); err != nil || len(tasks) != 0 {
		t.Errorf("the copy holds %d tasks, %v", len(tasks), err)
	}
}
