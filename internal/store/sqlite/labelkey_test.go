package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestTasksQueuedBeforeTheirLabelsWereHashedAreClaimed takes a file back to when the
// queue's index held the labels themselves.
func TestTasksQueuedBeforeTheirLabelsWereHashedAreClaimed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bloom.db")
	s := openAt(t, path, nil)
	task := storetest.QueueLabelled(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`UPDATE llm_tasks SET label_key = labels WHERE labels <> '[]'`,
		`ALTER TABLE workers DROP COLUMN control_draining`, `ALTER TABLE workers ADD COLUMN followed_drain INTEGER NOT NULL DEFAULT 0`,
		`ALTER TABLE workers ADD COLUMN followed_order INTEGER NOT NULL DEFAULT 0`, `ALTER TABLE workers ADD COLUMN told_order INTEGER NOT NULL DEFAULT 0`,
		`DROP INDEX runtime_artifacts_displaced`, `ALTER TABLE runtime_artifacts DROP COLUMN displaced`,
		`DROP TABLE task_series`, `DROP INDEX llm_tasks_created_by`, `ALTER TABLE llm_tasks DROP COLUMN created_by`, `ALTER TABLE llm_tasks DROP COLUMN workspace`,
		`DROP TABLE contexts`, `DROP TABLE transcripts`, `DROP TABLE forgotten_contexts`, `DROP TABLE context_fill`,
		`DROP TABLE search_queue`, `DROP TABLE search_retries`, `DROP TABLE search_rounds`, `DROP TABLE api_keys`, `DROP TABLE sessions`, `ALTER TABLE audit_logs DROP COLUMN key_id`, `ALTER TABLE audit_logs DROP COLUMN address`,
		`DELETE FROM goose_db_version WHERE version_id >= 5`,
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
	storetest.ClaimLabelled(t, openAt(t, path, nil), task)
}
