package postgres_test

import (
	"testing"

	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestTasksQueuedBeforeTheirLabelsWereHashedAreClaimed takes a database back to when
// the queue's index held the labels themselves.
func TestTasksQueuedBeforeTheirLabelsWereHashedAreClaimed(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	s := open(t, url, nil)
	task := storetest.QueueLabelled(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`UPDATE llm_tasks SET label_key = labels::text WHERE labels <> '[]'`,
		`ALTER TABLE workers DROP COLUMN control_draining`, `ALTER TABLE workers ADD COLUMN followed_drain boolean NOT NULL DEFAULT false`,
		`ALTER TABLE workers ADD COLUMN followed_order bigint NOT NULL DEFAULT 0`, `ALTER TABLE workers ADD COLUMN told_order bigint NOT NULL DEFAULT 0`,
		`DROP INDEX runtime_artifacts_displaced`, `ALTER TABLE runtime_artifacts DROP COLUMN displaced`,
		`DROP TABLE task_series`, `DROP INDEX llm_tasks_created_by`, `ALTER TABLE llm_tasks DROP COLUMN created_by`, `ALTER TABLE llm_tasks DROP COLUMN workspace`,
		`DROP TABLE contexts`, `DROP TABLE transcripts`, `DROP TABLE forgotten_contexts`, `DROP TABLE context_fill`,
		`DROP TABLE search_queue`, `DROP TABLE search_retries`, `DROP TABLE search_fill`, `DROP TABLE task_search`, `DROP TABLE api_keys`, `DROP TABLE sessions`, `ALTER TABLE audit_logs DROP COLUMN key_id`, `ALTER TABLE audit_logs DROP COLUMN address`,
		`DELETE FROM goose_db_version WHERE version_id >= 5`,
	} {
		if _, err := connect(t, url).Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := postgres.MigrateUp(t.Context(), url); err != nil || n == 0 {
		t.Fatalf("%d steps, %v", n, err)
	}
	storetest.ClaimLabelled(t, open(t, url, nil), task)
}
