package sqlite_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// breakable is a store with the path of its file.
type breakable struct {
	*sqlite.Store
	path string
}

// Break makes every change of a task's row fail.
func (b breakable) Break(t testing.TB, taskID string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+b.path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, change := range []string{"UPDATE", "DELETE"} {
		_, err := db.ExecContext(t.Context(), fmt.Sprintf(`CREATE TRIGGER "bad %s %s" BEFORE %s ON llm_tasks WHEN OLD.id = '%s' BEGIN SELECT RAISE(ABORT, 'a bad row'); END`,
			change, taskID, change, taskID))
		if err != nil {
			t.Fatal(err)
		}
	}
}
