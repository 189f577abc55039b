package store_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge/store"
	"github.com/bloom-runtime/bloom/internal/schema"
)

func TestADatabaseOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "membridge.db")
	if err := open(t, "", path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), "", path, nil); !errors.Is(err, schema.ErrNewerSchema) {
		t.Errorf("opened with %v", err)
	}
}
