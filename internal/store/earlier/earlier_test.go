package earlier_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/earlier"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// dump is a database of the earlier Node implementation.
func dump(t *testing.T) string {
	t.Helper()
	url := pgtest.Start(t)
	script, err := os.ReadFile("testdata/earlier.sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), string(script)); err != nil {
		t.Fatal(err)
	}
	return url
}

const taskPrefix = "3a0c9a5e-0000-4000-8000-00000000000"

func TestTheEarlierDataIsCopied(t *testing.T) {
	t.Parallel()
	url, path := dump(t), filepath.Join(t.TempDir(), "bloom.db")
	moved, err := earlier.Import(t.Context(), url, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range moved {
		if m.Table != "users" && m.Table != "runtime_settings" && m.Written < m.Rows {
			t.Errorf("%s: %d of %d", m.Table, m.Written, m.Rows)
		}
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := storetest.CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
	for id, want := range map[string]bloom.TaskStatus{"1": bloom.TaskCompleted, "2": bloom.TaskQueued, "3": bloom.TaskQueued,
		"4": bloom.TaskDead, "5": bloom.TaskFailed, "6": bloom.TaskDead, "7": bloom.TaskCompleted} {
		if task, err := s.Task(t.Context(), taskPrefix+id); err != nil || task.Status != want {
			t.Errorf("task %s is %s, want %s (%v)", id, task.Status, want, err)
		}
	}
	done, err := s.Task(t.Context(), taskPrefix+"1")
	if err != nil || done.CreatedAt != 1000 || done.Policy.TimeoutSec != 60 || done.Policy.Budget != 1000 || done.DesiredFormat != "json" ||
		len(done.ContextHints) != 1 || done.Usage == nil || done.Usage.TokensUsed != 42 || *done.WorkerID != "worker-01" || *done.LeaseID != taskPrefix[:len(taskPrefix)-1]+"a1" {
		t.Errorf("%+v, %v", done, err)
	}
	results, err := s.Results(t.Context(), taskPrefix+"1")
	if err != nil || len(results) != 1 || *results[0].Output != "the output" || *results[0].Metrics.TokensUsed != 42 {
		t.Errorf("%+v, %v", results, err)
	}
	if twice, err := s.Results(t.Context(), taskPrefix+"5"); err != nil || len(twice) != 2 || *twice[0].ErrorMessage != "second" {
		t.Errorf("%+v, %v", twice, err)
	}
	if kept, err := s.Results(t.Context(), taskPrefix+"7"); err != nil || len(kept) != 1 || kept[0].Output == nil || *kept[0].Output != "kept in the result" {
		t.Errorf("the output of an artifact in the object storage: %+v, %v", kept, err)
	}
	artifacts, _, err := s.Artifacts(t.Context(), bloom.ArtifactQuery{TaskID: taskPrefix + "7"})
	if err != nil || len(artifacts) != 2 || artifacts[0].URL != nil || artifacts[1].URL != nil || !slices.Equal(artifacts[0].EntityRefs, []string{"e2", "minio://bloom-artifacts/artifacts/b8"}) ||
		*artifacts[1].Content != "kept in the result" {
		t.Errorf("artifacts in the object storage: %+v, %v", artifacts, err)
	}
	all, _, err := s.Tasks(t.Context(), bloom.TaskQuery{})
	if err != nil || len(all) != 8 || all[0].Prompt != "Completed without a trace." {
		t.Errorf("%d tasks, %v", len(all), err)
	}
	about, _, err := s.Audit(t.Context(), bloom.AuditQuery{EntityID: all[0].ID})
	if err != nil || len(about) != 2 || about[0].Action != audit.ActionTaskImported {
		t.Errorf("the audit of a task whose id was no UUID: %+v, %v", about, err)
	}
	workers, err := s.Workers(t.Context())
	if err != nil || len(workers) != 1 || workers[0].Status != bloom.WorkerOffline || workers[0].Capabilities.MaxConcurrency != 4 {
		t.Errorf("%+v, %v", workers, err)
	}
	settings, err := s.Settings(t.Context())
	if err != nil || settings["membridge_server_url"] != "http://127.0.0.1:8000" || len(settings) != 1 {
		t.Errorf("%v, %v", settings, err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Tasks.Total != 8 || stats.Tasks.ByStatus[bloom.TaskQueued] != 2 || stats.Leases.Active != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	// New work is possible: the queued task is claimed.
	if _, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w", InstanceID: "i", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 4}}, "test"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "i", Max: 4})
	if err != nil || len(got.Leases) != 2 {
		t.Errorf("claimed %d, %v", len(got.Leases), err)
	}
}

func TestOnlyADatabaseOfTheEarlierImplementationIsAccepted(t *testing.T) {
	t.Parallel()
	url, path := pgtest.Start(t), filepath.Join(t.TempDir(), "bloom.db")
	if _, err := earlier.Import(t.Context(), url, path); !errors.Is(err, earlier.ErrForeign) {
		t.Errorf("an empty database: %v", err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `CREATE TABLE llm_tasks (id text, epoch bigint)`); err != nil {
		t.Fatal(err)
	}
	if _, err := earlier.Import(t.Context(), url, path); !errors.Is(err, earlier.ErrForeign) || !strings.Contains(err.Error(), "DATABASE_URL") {
		t.Errorf("a database of this runtime: %v", err)
	}
	if _, err := earlier.Import(t.Context(), "postgresql://user:hush@127.0.0.1:1/x", path); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("an absent one: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := earlier.Import(t.Context(), url, path); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file that is there: %v", err)
	}
}
