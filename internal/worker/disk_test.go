package worker_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// spoil makes a folder one in which nothing can be written, for root too, until mend.
func spoil(t *testing.T, dir string) (mend func()) {
	t.Helper()
	try := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	try(os.Rename(dir, dir+".kept"))
	try(os.WriteFile(dir, nil, 0o600))
	return func() {
		try(os.Remove(dir))
		try(os.Rename(dir+".kept", dir))
	}
}

func TestAWorkerThatCannotWriteItsStateFolderLeavesTheQueueToOthers(t *testing.T) {
	b := newBench(t)
	l := b.start(nil)
	b.logs.await(t, "registered")
	mend := spoil(t, filepath.Join(b.dir, "leases"))
	task := b.rt.Submit("ctx", "do it")
	b.logs.await(t, "not claiming tasks: the state folder cannot be written; make room or correct its permissions, the worker goes on by itself")
	b.logs.await(t, "task released")
	got := b.until(task.ID, bloom.TaskQueued)
	if got.Attempts != 0 || got.RunAt > bloom.Millis(time.Now()) {
		t.Errorf("it waits: %+v", got.TaskState)
	}
	b.untilWorker("node", bloom.WorkerError)
	if l.w.Status().Unwritable == "" {
		t.Error("its status does not say why it takes nothing")
	}
	found, err := b.rt.Service.Problems(t.Context(), true)
	if err != nil || !slices.ContainsFunc(found.Problems, func(p bloom.Problem) bool {
		return p.Code == bloom.ProblemWorkerError && slices.Equal(p.Names, []string{"node"})
	}) ||
		slices.ContainsFunc(found.Problems, func(p bloom.Problem) bool { return p.Code == bloom.ProblemLimited || p.Code == bloom.ProblemOffline }) {
		t.Errorf("problems %+v, %v", found.Problems, err)
	}
	b.start(func(c *worker.Config) { c.Name, c.StateDir, c.Capabilities.MaxConcurrency = "other", t.TempDir(), 1 })
	first := b.runner.next(t)
	if got := b.until(task.ID, bloom.TaskRunning); *got.WorkerID != "other" || first.task.ID != task.ID {
		t.Errorf("%s runs on %s", first.task.ID, *got.WorkerID)
	}
	mend()
	b.untilWorker("node", bloom.WorkerOnline)
	next := b.rt.Submit("ctx2", "do it") // the other is busy
	if run := b.runner.next(t); run.task.ID != next.ID {
		t.Errorf("%s was begun", run.task.ID)
	}
}

// untilWorker waits for a worker's status.
func (b *bench) untilWorker(name string, want bloom.WorkerStatus) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		w, err := b.api.Worker(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		if w.Status == want {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("worker %s is %q, waited for %q", name, w.Status, want)
		}
	}
}

func TestARefusedOutcomeThatCannotBeSetAsideStays(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	mend := spoil(t, filepath.Join(b.dir, "outbox", "refused"))
	refused := make(chan struct{}, 1)
	b.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if stepOf(r) != "complete" {
			return false
		}
		select {
		case refused <- struct{}{}:
		default:
			return false // the substitute
		}
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "no", "code": bloom.CodeInvalid, "request_id": "1"})
		return true
	})
	run.end <- success("precious")
	b.until(task.ID, bloom.TaskFailed) // by the substitute
	b.logs.await(t, "task finished and reported")
	b.logs.await(t, "the server refused an outcome; it could not be set aside and stays in the outbox")
	files := outbox(t, b.dir)
	if len(files) != 1 {
		t.Fatalf("the outbox holds %q", files)
	}
	if raw, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(raw), "precious") {
		t.Errorf("it holds %s, %v", raw, err)
	}
	mend()
}
