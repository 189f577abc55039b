package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// breakable is a store with the URL of its database.
type breakable struct {
	*postgres.Store
	url string
}

// Break makes every change of a task's row fail.
func (b breakable) Break(t testing.TB, taskID string) {
	breakRow(t, b.url, taskID, "check_violation")
}

func (b breakable) Mend(t testing.TB, taskID string) { mendRow(t, b.url, taskID) }

func breakRow(t testing.TB, url, taskID, code string) {
	t.Helper()
	for _, q := range []string{
		fmt.Sprintf(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a bad row' USING ERRCODE = '%s'; END $$`, code),
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

// A value that exists already is the trace of another transaction only once or twice.
func TestAValueThatAlwaysExistsIsNoRace(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Patience: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	register(t, s, "w", 2)
	bad, good := storetest.Plain("bad"), storetest.Plain("good")
	for _, n := range []contract.NewTask{bad, good} {
		if _, _, err := s.CreateTask(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	breakRow(t, url, bad.ID, "unique_violation")
	if _, err := s.Cancel(t.Context(), bad.ID, "me"); bloom.KindOf(err) != bloom.KindInternal {
		t.Errorf("cancelled with %v, want an internal error", err)
	}
	r, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 2, TTLSec: 60})
	if err != nil || len(r.Leases) != 1 || r.Leases[0].Task.ID != good.ID {
		t.Errorf("claimed %+v, %v; want only the good task", r.Leases, err)
	}
}
