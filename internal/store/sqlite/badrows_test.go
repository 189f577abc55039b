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
	b.exec(t, `CREATE TRIGGER "bad %[1]s %[2]s" BEFORE %[1]s ON llm_tasks WHEN OLD.id = '%[2]s' BEGIN SELECT RAISE(ABORT, 'a bad row'); END`, taskID)
}

func (b breakable) Mend(t testing.TB, taskID string) {
	t.Helper()
	b.exec(t, `DROP TRIGGER "bad %s %s"`, taskID)
}

// exec runs a statement for each kind of change of a task.
func (b breakable) exec(t testing.TB, statement, taskID string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+b.path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, change := range []string{"UPDATE", "DELETE"} {
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf(statement, change, taskID)); err != nil {
			t.Fatal(err)
		}
	}
}
