package sqlite_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// removerEnv makes the test binary remove old tasks from the database that it names.
const removerEnv = "BLOOM_TEST_SQLITE_REMOVER"

// later is a clock that is months ahead.
type later struct{}

func (later) Now() time.Time { return time.Now().Add(100 * 24 * time.Hour) }

// fewAtOnce makes batches small, so that there are many.
type fewAtOnce struct{ *sqlite.Store }

func (f fewAtOnce) RemoveTasks(ctx context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	r.Limit = 7
	return f.Store.RemoveTasks(ctx, r)
}

// announced prints each deletion before it begins.
type announced struct{ blob.Blobs }

func (t announced) Delete(ctx context.Context, url string) error {
	fmt.Println("deletes", url)
	return t.Blobs.Delete(ctx, url)
}

func removeUntilKilled(path string) {
	s, err := sqlite.Open(context.Background(), sqlite.Config{Path: path, Clock: later{}})
	if err == nil {
		var b *local.Store
		if b, err = local.Open(filepath.Join(filepath.Dir(path), "artifacts"), ""); err == nil {
			_, err = maintenance.NewRetention(maintenance.RetentionConfig{
				Store: fewAtOnce{s}, Contents: announced{b}, Keep: contract.Keep{Tasks: time.Hour}, Removed: func(r contract.Removed) { fmt.Println("removed", r.Tasks) },
			}).RunOnce(context.Background())
		}
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0) // without closing anything, like a killed one
}

// TestKilledRemovalLeavesNothingHalfRemoved repeatedly kills a removing process: no row of a
// removed task may remain, none may refer to missing content, and the last run must leave no
// content behind.
func TestKilledRemovalLeavesNothingHalfRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "bloom.db")
	live := fillEnded(t, path, 300, 20)
	runs, killed := 0, 0
	for done := false; !done; runs++ {
		done = removeAndKill(t, path, 1+rand.IntN(150))
		if !done {
			killed++
		}
		checkRemoved(t, path, live)
	}
	if killed == 0 {
		t.Error("no run was killed")
	}
	left, err := filepath.Glob(filepath.Join(dir, "artifacts", "artifacts", "*", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("%d contents are left, %v", len(left), err)
	}
	t.Logf("%d runs, %d killed", runs, killed)
}

// fillEnded creates ended tasks, with content in the blob store, and queued ones, whose ids it
// returns.
func fillEnded(t *testing.T, path string, ended, waiting int) (live []string) {
	t.Helper()
	ctx := t.Context()
	s := openAt(t, path, nil)
	b, err := local.Open(filepath.Join(filepath.Dir(path), "artifacts"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = s.RegisterWorker(ctx, bloom.WorkerSpec{Name: "w", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 4}}, "test")
	ok(err)
	for i := range ended {
		n := storetest.Plain(fmt.Sprint("context-", i))
		_, _, err := s.CreateTask(ctx, n)
		ok(err)
		l, _, err := s.LeaseTask(ctx, contract.LeaseRequest{TaskID: n.ID})
		ok(err)
		r := storetest.Success(n.ID, l.ID)
		sum := sha256.Sum256([]byte(*r.Content))
		url, err := b.Put(ctx, "artifacts/"+n.ID+"/"+r.ArtifactID, strings.NewReader(*r.Content), r.Size, hex.EncodeToString(sum[:]))
		ok(err)
		r.Content, r.URL = nil, &url
		_, err = s.Complete(ctx, r)
		ok(err)
		if i%(ended/waiting) == 0 {
			task, _, err := s.CreateTask(ctx, storetest.Plain("waits"))
			ok(err)
			live = append(live, task.ID)
		}
	}
	ok(s.Close())
	return live
}

// removeAndKill reports whether the remover finished before it was killed.
func removeAndKill(t *testing.T, path string, lines int) bool {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), removerEnv+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for in := bufio.NewScanner(out); in.Scan(); n++ {
		if strings.HasPrefix(in.Text(), "error") {
			t.Error(in.Text())
		}
		if n == lines {
			_ = child.Process.Kill()
		}
	}
	return child.Wait() == nil
}

// orphans are queries that must find nothing.
var orphans = []string{
	`SELECT COUNT(*) FROM task_events WHERE task NOT IN (SELECT seq FROM llm_tasks)`,
	`SELECT COUNT(*) FROM leases WHERE task_id NOT IN (SELECT id FROM llm_tasks)`,
	`SELECT COUNT(*) FROM llm_results WHERE task_id NOT IN (SELECT id FROM llm_tasks)`,
	`SELECT COUNT(*) FROM runtime_artifacts WHERE task_id NOT IN (SELECT id FROM llm_tasks)`,
	`SELECT COUNT(*) FROM llm_results WHERE artifact_id NOT IN (SELECT id FROM runtime_artifacts)`,
}

func checkRemoved(t *testing.T, path string, live []string) {
	t.Helper()
	s := openAt(t, path, nil)
	if err := storetest.CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
	for _, id := range live {
		if _, err := s.Task(t.Context(), id); err != nil {
			t.Errorf("a task that waits: %v", err)
		}
	}
	for artifacts, next, err := s.Artifacts(t.Context(), bloom.ArtifactQuery{}); ; artifacts, next, err = s.Artifacts(t.Context(), bloom.ArtifactQuery{Page: bloom.Page{Cursor: next}}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range artifacts {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), "artifacts", strings.TrimPrefix(*a.URL, "file:"))); err != nil {
				t.Errorf("an artifact names content that is gone: %v", err)
			}
		}
		if next == (bloom.Cursor{}) {
			break
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	countOrphans(t, path)
}

func countOrphans(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range orphans {
		var n int
		if err := db.QueryRowContext(t.Context(), q).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows, %v: %s", n, err, q)
		}
	}
}
