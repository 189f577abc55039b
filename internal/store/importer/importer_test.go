package importer_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/importer"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// aFile creates a SQLite file with tasks in every state.
func aFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bloom.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{
		Name: "w", InstanceID: "w-1", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 32},
	}, "test"); err != nil {
		t.Fatal(err)
	}
	for i := range 700 {
		n := storetest.Plain("context")
		n.Spec.Prompt, n.Spec.Labels, n.Spec.ContextHints = "naïve \"prompt\" \\ 日本", []string{"b", "a"}, []string{"x/*.go"}
		n.Spec.Policy.Ordered = i%50 == 0
		if i%3 == 0 {
			n.Spec.Labels, n.IdempotencyScope, n.Spec.IdempotencyKey = nil, "scope", n.ID
		}
		if _, _, err := s.CreateTask(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if i%3 != 0 {
			continue
		}
		l, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: n.ID})
		if err != nil {
			continue // an ordered task that waits
		}
		if _, err := s.AppendEvents(t.Context(), n.ID, l.ID, []bloom.WorkerEvent{{Seq: 7, Type: "text", Data: []byte(`{"b":1,  "a":[1e3]}`)}}); err != nil {
			t.Fatal(err)
		}
		if i%40 == 0 {
			continue // stays leased
		}
		if _, err := s.Complete(t.Context(), storetest.Success(n.ID, l.ID)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.FollowDrain(t.Context(), "w", true, "w"); err != nil {
		t.Fatal(err)
	}
	if err := s.PutSettings(t.Context(), map[string]string{"a": "1"}, bloom.Audit{Action: "x", Data: []byte(`{"z": 1, "a": 2}`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnImportMovesEverything(t *testing.T) {
	t.Parallel()
	path, url := aFile(t), pgtest.Start(t)
	started, err := postgres.Open(t.Context(), postgres.Config{URL: url}) // by a server that was started first
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(started.PutSettings(t.Context(), map[string]string{"installation": "its-own"}, bloom.Audit{}), started.Close()); err != nil {
		t.Fatal(err)
	}
	// Interrupted in the middle, then continued where it stopped.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := importer.Import(ctx, path, url, func(table string, _ int64) {
		if table == "leases" {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Fatalf("the broken import says %v", err)
	}
	again := map[string]int64{}
	done, err := importer.Import(t.Context(), path, url, func(table string, rows int64) { again[table] += rows })
	if err != nil {
		t.Fatal(err)
	}
	if again["llm_tasks"] != 0 || again["task_events"] == 0 || len(done) != 19 || done[0].Rows != 700 {
		t.Errorf("copied %v: %+v", again, done)
	}
	if _, err := importer.Import(t.Context(), path, url, nil); !errors.Is(err, importer.ErrNotEmpty) {
		t.Errorf("a second import says %v", err)
	}
	old, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if d := cmp.Diff(storetest.Look(t, old), storetest.Look(t, s)); d != "" {
		t.Errorf("(-file +database):\n%.3000s", d)
	}
	if err := storetest.CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
	if w, err := s.FollowDrain(t.Context(), "w", false, "w"); err != nil || w.Draining {
		t.Errorf("undrained at the control plane: %+v, %v", w, err)
	}
	// The store works: new rows continue the numbers.
	task, _, err := s.CreateTask(t.Context(), storetest.Plain("new"))
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: task.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Complete(t.Context(), storetest.Success(task.ID, l.ID)); err != nil {
		t.Fatal(err)
	}
	if tasks, _, err := s.Tasks(t.Context(), bloom.TaskQuery{Page: bloom.Page{Limit: 1}}); err != nil || tasks[0].ID != task.ID {
		t.Errorf("the newest is %+v, %v", tasks, err)
	}
}

func TestAnImportNoticesWhatDiffers(t *testing.T) {
	t.Parallel()
	path, url := aFile(t), pgtest.Start(t)
	c, err := postgres.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = importer.Import(ctx, path, url, func(table string, _ int64) {
		if table == "runtime_settings" {
			if _, err := c.Exec(ctx, `UPDATE llm_results SET body_hash = 'another' WHERE completed_at = (SELECT max(completed_at) FROM llm_results)`); err != nil {
				t.Error(err)
			}
		}
	})
	if !errors.Is(err, importer.ErrDiffers) {
		t.Errorf("says %v", err)
	}
}
