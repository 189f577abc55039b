package postgres_test

import (
	"testing"

	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

// Which of a table's statements runs depends on how many operations share a transaction, so a wrong
// type in one of them might appear only under load.
func TestEveryStatementThatWritesRowsIsValid(t *testing.T) {
	t.Parallel()
	conn := connect(t, migrated.Start(t))
	for _, text := range postgres.Writes() {
		if _, err := conn.Prepare(t.Context(), "", text); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}
