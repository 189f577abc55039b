package importer_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/importer"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestAnImportContinuesTheNumbersOfRemovedRows imports a file whose tasks and records of
// forgotten contexts were removed. Workers ask for contexts that were forgotten after the
// number they know.
func TestAnImportContinuesTheNumbersOfRemovedRows(t *testing.T) {
	t.Parallel()
	path, clock := filepath.Join(t.TempDir(), "bloom.db"), storetest.NewClock()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	ended := func(s contract.Store, contextID string) {
		t.Helper()
		task, _, err := s.CreateTask(t.Context(), storetest.Plain(contextID))
		if err == nil {
			_, err = s.Cancel(t.Context(), task.ID, "me")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	forget := func(s contract.Store, contextID string) {
		t.Helper()
		if err := s.ForgetContext(t.Context(), contextID, "me"); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"x", "y", "z", "a", "b", "c"} {
		ended(s, id)
	}
	for _, id := range []string{"x", "y", "z"} {
		forget(s, id)
	}
	known, err := s.Forgotten(t.Context(), 0, 10)
	if err != nil || len(known) != 3 {
		t.Fatalf("forgotten: %+v, %v", known, err)
	}
	clock.Advance(2 * time.Hour)
	old := contract.RemoveRequest{OlderThan: time.Hour}
	if _, err := s.RemoveForgotten(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if did, err := s.RemoveTasks(t.Context(), old); err != nil || did.Tasks != 6 {
		t.Fatalf("removed %+v, %v", did, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	url := pgtest.Start(t)
	if _, err := importer.Import(t.Context(), path, url, nil); err != nil {
		t.Fatal(err)
	}
	into, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = into.Close() }()
	ended(into, "a")
	if all, _, err := into.Contexts(t.Context(), bloom.ContextQuery{}); err != nil || len(all) != 3 || all[0].ID != "a" {
		t.Errorf("contexts by their newest task: %+v, %v; want a first", all, err)
	}
	forget(into, "a")
	if now, err := into.Forgotten(t.Context(), known[2].Seq, 10); err != nil || len(now) != 1 || now[0].ID != "a" {
		t.Errorf("forgotten since: %+v, %v; want a", now, err)
	}
}
