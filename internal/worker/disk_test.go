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
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/timing"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// makeUnwritable makes a folder unwritable, for root too, until restore is called.
func makeUnwritable(t *testing.T, dir string) (restore func()) {
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
	h := newHarness(t)
	l := h.start(nil)
	h.logs.await(t, "registered")
	restore := makeUnwritable(t, filepath.Join(h.dir, "leases"))
	task := h.rt.Submit("ctx", "do it")
	h.logs.await(t, "not claiming tasks: the state folder cannot be written; free disk space or correct its permissions, and the worker resumes")
	h.logs.await(t, "task released")
	got := h.until(task.ID, bloom.TaskQueued)
	if got.Attempts != 0 || got.RunAt > timing.Millis(time.Now()) {
		t.Errorf("it waits: %+v", got.TaskState)
	}
	h.untilWorker("node", bloom.WorkerError)
	if l.w.Status().StateError == "" {
		t.Error("its status does not say why it takes nothing")
	}
	found, err := h.api.Problems(t.Context())
	if err != nil || !slices.ContainsFunc(found.Problems, func(p bloom.Problem) bool {
		return p.Code == problems.CodeWorkerError && slices.Equal(p.Names, []string{"node"})
	}) ||
		slices.ContainsFunc(found.Problems, func(p bloom.Problem) bool { return p.Code == problems.CodeLimited || p.Code == problems.CodeOffline }) {
		t.Errorf("problems %+v, %v", found.Problems, err)
	}
	h.start(func(c *worker.Config) { c.Name, c.StateDir, c.Capabilities.MaxConcurrency = "other", t.TempDir(), 1 })
	first := h.runner.next(t)
	if got := h.until(task.ID, bloom.TaskRunning); *got.WorkerID != "other" || first.task.ID != task.ID {
		t.Errorf("%s runs on %s", first.task.ID, *got.WorkerID)
	}
	restore()
	h.untilWorker("node", bloom.WorkerOnline)
	next := h.rt.Submit("ctx2", "do it") // the other is busy
	if run := h.runner.next(t); run.task.ID != next.ID {
		t.Errorf("%s was begun", run.task.ID)
	}
}

func TestAWorkerSaysThatItsStateFolderIsGone(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	h.logs.await(t, "registered")
	if err := os.Rename(h.dir, h.dir+".gone"); err != nil {
		t.Fatal(err)
	}
	task := h.rt.Submit("ctx", "do it")
	h.logs.await(t, "not claiming tasks: the state folder cannot be written; it was removed: restart the worker")
	h.until(task.ID, bloom.TaskQueued)
}

// untilWorker waits for a worker's status.
func (h *harness) untilWorker(name string, want bloom.WorkerStatus) {
	h.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		w, err := h.api.Worker(h.Context(), name)
		if err != nil {
			h.Fatal(err)
		}
		if w.Status == want {
			return
		}
		if time.Now().After(deadline) {
			h.Fatalf("worker %s is %q, waited for %q", name, w.Status, want)
		}
	}
}

func TestARefusedOutcomeThatCannotBeMovedStays(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	restore := makeUnwritable(t, filepath.Join(h.dir, "outbox", "refused"))
	refused := make(chan struct{}, 1)
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
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
	h.until(task.ID, bloom.TaskFailed) // by the substitute
	h.logs.await(t, "task finished and reported")
	h.logs.await(t, "the server refused an outcome; it could not be moved aside and stays in the outbox")
	files := outbox(t, h.dir)
	if len(files) != 1 {
		t.Fatalf("the outbox holds %q", files)
	}
	if raw, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(raw), "precious") {
		t.Errorf("it holds %s, %v", raw, err)
	}
	restore()
}
