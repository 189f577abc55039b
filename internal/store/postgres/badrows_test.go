package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

// breakable is a store with the URL of its database.
type breakable struct {
	*postgres.Store
	url string
}

// Break makes every change of a task's row fail.
func (b breakable) Break(t testing.TB, taskID string) { breakRow(t, b.url, taskID) }
func (b breakable) Mend(t testing.TB, taskID string)  { mendRow(t, b.url, taskID) }

func breakRow(t testing.TB, url, taskID string) {
	t.Helper()
	for _, q := range []string{
		`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a bad row' USING ERRCODE = 'check_violation'; END $$`,
		fmt.Sprintf(`CREATE TRIGGER "bad %s" BEFORE UPDATE OR DELETE ON llm_tasks FOR EACH ROW WHEN (OLD.id = '%s') EXECUTE FUNCTION refuse()`, taskID, taskID),
	} {
		if _, err := connect(t, url).Exec(context.WithoutCancel(t.Context()), q); err != nil {
			t.Fatal(err)
		}
	}
}

func mendRow(t testing.TB, url, taskID string) {
	t.Helper()
	if _, err := connect(t, url).Exec(context.WithoutCancel(t.Context()), fmt.Sprintf(`DROP TRIGGER "bad %s" ON llm_tasks`, taskID)); err != nil {
		t.Fatal(err)
	}
}
