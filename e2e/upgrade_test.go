package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// earlier builds the program of the commit that BLOOM_TEST_UPGRADE names, or skips.
func earlier(t *testing.T) string {
	t.Helper()
	ref := os.Getenv("BLOOM_TEST_UPGRADE")
	if ref == "" {
		t.Skip("builds an earlier version; make test-upgrade runs it")
	}
	dir := t.TempDir()
	build := exec.Command("bash", "-c", `set -eo pipefail; mkdir tree; git -C "$1" archive "$2" | tar -x -C tree
		cd tree && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/bloom-runtime/bloom/internal/cli.Version=$2" -o ../bloom ./cmd/bloom`, "earlier", repository(t), ref)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", ref, err, out)
	}
	return filepath.Join(dir, "bloom")
}

// newer reports whether the schema has changed since the earlier version.
func newer(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("git", "-C", repository(t), "diff", "--name-only", os.Getenv("BLOOM_TEST_UPGRADE"), "--", "internal/store/postgres/migrations").CombinedOutput()
	if err != nil {
		t.Fatalf("git diff: %v\n%s", err, out)
	}
	return len(out) > 0
}

func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAnEarlierVersionIsUpgradedUnderLoadAndBack upgrades two servers of an earlier version and
// their workers one after the other, as docs/guides/postgresql.md says, while clients create
// and follow tasks: no call fails, and each task runs once. Then it goes back as
// docs/guides/backup-and-upgrade.md describes: the earlier program over the dump from before the upgrade,
// with everything acknowledged by then.
func TestAnEarlierVersionIsUpgradedUnderLoadAndBack(t *testing.T) {
	old := earlier(t)
	database, front := pgtest.Start(t), newBalancer(t)
	h := newHarness(t)
	h.front = front
	s := &site{harness: h, replicas: h.replicas(2, database), runs: filepath.Join(h.dir, "runs")}
	claude := quickClaude(t, s.runs)
	for _, r := range s.replicas {
		r.program = old
		r.begin()
	}
	work := func(i int, program string) *proc {
		return h.work(workerOptions{name: fmt.Sprint("worker-", i), claude: claude, program: program, env: []string{}, args: []string{"--max-concurrency", "4"}})
	}
	workers := []*proc{work(0, old), work(1, old)}
	s.stored(t, 200)

	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 3 {
		load.Go(func() { h.postUntil(t, stop) })
	}
	s.more(t, 20)
	dump := filepath.Join(h.dir, "before.dump")
	before := s.ended(t)
	postgresql(t, "pg_dump", "--format=custom", "--file="+dump, database)
	for i, r := range s.replicas {
		if code := r.proc.terminate(); code != 0 {
			t.Errorf("replica %d of the earlier version ended with code %d", i, code)
		}
		r.program = ""
		r.begin()
		s.more(t, 20)
	}
	for i, p := range workers {
		if code := p.terminate(); code != 0 {
			t.Errorf("worker %d of the earlier version ended with code %d", i, code)
		}
		workers[i] = work(i, "")
		s.more(t, 20)
	}
	close(stop)
	load.Wait()
	eventually(t, "every task has ended", s.allCompleted)
	s.everyTaskRanOnce(t)
	if err := h.invariants(); err != nil {
		t.Error(err)
	}

	for _, p := range slices.Concat(workers, []*proc{s.replicas[0].proc, s.replicas[1].proc}) {
		h.stop(p)
	}
	if newer(t) {
		refused := spawnAs(t, old, "earlier version over the new schema", h.env("RUNTIME_API_KEY="+adminKey), "server", "--database-url", database, "--listen", "127.0.0.1:0", "--data-dir", t.TempDir())
		if code := refused.wait(); code != 1 || !strings.Contains(refused.out.String(), "newer") {
			t.Errorf("the earlier version over the new schema ends with %d: %s", code, refused.out.tail())
		}
	}
	restored := pgtest.Start(t)
	postgresql(t, "pg_restore", "--exit-on-error", "--no-owner", "--dbname="+restored, dump)
	for _, r := range s.replicas {
		r.program, r.database = old, restored
		r.begin()
	}
	workers = []*proc{work(0, old), work(1, old)}
	for _, id := range before {
		if results, err := h.api.Results(t.Context(), id); err != nil || len(results) != 1 {
			t.Errorf("task %s had ended before the dump, and has %d results: %v", id, len(results), err)
		}
	}
	if !h.postAndFollow(t, 7) {
		t.Error("the earlier version does not work on")
	}
	eventually(t, "the unfinished tasks of the dump have ended", s.allCompleted)
	for _, p := range slices.Concat(workers, []*proc{s.replicas[0].proc, s.replicas[1].proc}) {
		h.stop(p)
	}
}

// stored has n tasks completed before anything else happens.
func (s *site) stored(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		task := spec(fmt.Sprint("stored ", i))
		task.Prompt = "say done-1; and nothing else"
		if _, err := s.api.Submit(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "what is stored has ended", s.allCompleted)
}

// more waits until n more tasks have ended.
func (s *site) more(t *testing.T, n int64) {
	t.Helper()
	completed := func() int64 {
		now, err := s.api.Stats(t.Context())
		if err != nil {
			return 0
		}
		return now.Tasks.ByStatus[bloom.TaskCompleted]
	}
	from := completed()
	eventually(t, "the load goes on", func() bool { return completed() >= from+n })
}

func (s *site) allCompleted() bool {
	now, err := s.api.Stats(s.t.Context())
	return err == nil && now.Tasks.Total > 0 && now.Tasks.ByStatus[bloom.TaskCompleted] == now.Tasks.Total
}

// ended returns the tasks that have ended so far.
func (s *site) ended(t *testing.T) (ids []string) {
	t.Helper()
	for task, err := range s.api.AllTasks(t.Context(), bloom.TaskQuery{Status: bloom.TaskCompleted}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, task.ID)
	}
	return ids
}

// postgresql runs one of the client programs, in the server's version.
func postgresql(t *testing.T, program string, args ...string) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil || len(found) == 0 {
		found = []string{program}
	}
	if out, err := exec.Command(found[len(found)-1], args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}
