package sqlite_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
	"github.com/bloom-runtime/bloom/internal/timing"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		writeUntilKilled(path)
		return
	}
	if path := os.Getenv(removerEnv); path != "" {
		removeUntilKilled(path)
		return
	}
	goleak.VerifyTestMain(m)
}

func openAt(t testing.TB, path string, clock timing.Clock) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Clock: clock, Transcripts: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func open(t testing.TB, clock timing.Clock) *sqlite.Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "bloom.db"), clock)
}

// grows are the tables that nothing may scan.
var grows = []string{"llm_tasks", "leases", "workers", "runtime_artifacts", "llm_results", "task_events", "audit_logs"}

func TestConformance(t *testing.T) { //nolint:tparallel // the plans are checked after the whole suite
	t.Parallel()
	var mu sync.Mutex
	plans := map[string]string{}
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, 200, func(t *testing.T, clock timing.Clock) contract.Store {
			path := filepath.Join(t.TempDir(), "bloom.db")
			s := openAt(t, path, clock)
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				for q, plan := range s.Plans() {
					plans[q] = plan
				}
			})
			return breakable{s, path}
		})
	})
	if len(plans) < 40 {
		t.Fatalf("only %d statements were seen", len(plans))
	}
	for q, plan := range plans {
		if step := bad(plan); step != "" {
			t.Errorf("%s\n\tin: %s", step, q)
		}
	}
}

// bad finds a step that reads all of a table that grows. Reading along an index from its end, with
// a limit, is a SEARCH or a SCAN that names the index.
func bad(plan string) string {
	for step := range strings.SplitSeq(plan, "; ") {
		if strings.HasPrefix(step, "USE TEMP B-TREE") && !strings.Contains(plan, "leases_") && !strings.Contains(plan, "task_series") {
			return step
		}
		if !strings.HasPrefix(step, "SCAN") || strings.Contains(step, "CONSTANT ROW") || strings.Contains(step, "llm_tasks_queue") ||
			strings.Contains(step, "workers_present") || strings.Contains(step, "leases_held") || strings.Contains(step, "leases_one_active") { // no more entries than workers have slots
			continue
		}
		name := strings.Fields(step)[1]
		for _, table := range append(grows, "t", "l", "w", "a", "r", "x") {
			if name == table {
				return step
			}
		}
	}
	return ""
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bloom.db")
	s := openAt(t, path, nil)
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); !errors.Is(err, sqlite.ErrLocked) || !strings.Contains(err.Error(), "process ") {
		t.Fatalf("a second open says %v", err)
	}
	if _, err := sqlite.MigrateUp(t.Context(), path); !errors.Is(err, sqlite.ErrLocked) {
		t.Fatalf("migrating says %v", err)
	}
	if steps, err := sqlite.Migrations(t.Context(), path); err != nil || len(steps) == 0 || !steps[0].Applied {
		t.Fatalf("looking at the schema of a running store: %+v, %v", steps, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, nil)
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a?b#c %20.db") // characters with a meaning in URLs
	applied, err := sqlite.MigrateUp(t.Context(), path)
	if err != nil || applied == 0 {
		t.Fatalf("applied %d: %v", applied, err)
	}
	steps, err := sqlite.Migrations(t.Context(), path)
	if err != nil || len(steps) != applied || !steps[applied-1].Applied || steps[applied-1].AppliedAt.IsZero() {
		t.Fatalf("after: %+v, %v", steps, err)
	}
	if again, err := sqlite.MigrateUp(t.Context(), path); err != nil || again != 0 {
		t.Fatalf("a second time applied %d: %v", again, err)
	}
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); !errors.Is(err, schema.ErrNewerSchema) {
		t.Fatalf("an older program says %v", err)
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "bloom.db")
	s := openAt(t, source, nil)
	copied := filepath.Join(t.TempDir(), "copy.db")
	task, _, err := s.CreateTask(t.Context(), storetest.Plain("c"))
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Backup(t.Context(), source, copied); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateTask(t.Context(), storetest.Plain("c")); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Backup(t.Context(), source, copied); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("an existing target: %v", err)
	}
	b := openAt(t, copied, nil)
	if err := storetest.CheckInvariants(t.Context(), b); err != nil {
		t.Error(err)
	}
	if tasks, _, err := b.Tasks(t.Context(), bloom.TaskQuery{}); err != nil || len(tasks) != 1 || tasks[0].ID != task.ID {
		t.Errorf("the copy has %d tasks: %v", len(tasks), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(copied), ".bloom-backup-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A caller may call again as soon as it has a response: a worker that has just completed a task
// must not be woken by that.
func TestAChangeIsPublishedBeforeItsCallerIsAnswered(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "bloom.db"), storetest.NewClock())
	var notified atomic.Bool
	s.Subscribe(func([]bloom.Change) {
		<-time.After(20 * time.Millisecond)
		notified.Store(true)
	})
	if _, _, err := s.CreateTask(t.Context(), storetest.Plain("c")); err != nil {
		t.Fatal(err)
	}
	if !notified.Load() {
		t.Error("the caller was answered first")
	}
}
