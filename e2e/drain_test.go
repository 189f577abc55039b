package e2e_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// oneRunningTask starts a system with one worker that runs a task until finish is closed.
func oneRunningTask(t *testing.T, args ...string) (h *harness, worker *proc, task bloom.Task, finish chan struct{}) {
	t.Helper()
	h = newHarness(t)
	h.serve()
	worker = h.work(workerOptions{name: "leaving", args: args})
	finish = make(chan struct{})
	h.script("drain", standin.Sequence(standin.Reply{Text: "finished", Until: finish}))
	task = h.submit(t, spec("drain"))
	h.untilLeased(t, task.ID)
	h.untilAsked("scenario drain;", 1)
	return h, worker, task, finish
}

// released expects a task that is queued again and whose attempt was refunded.
func (h *harness) released(t *testing.T, id string) {
	t.Helper()
	now, err := h.api.Task(t.Context(), id)
	if err != nil || now.Status != bloom.TaskQueued || now.Attempts != 0 || now.LeaseID != nil {
		t.Errorf("task = %s, %v; want it back in the queue with its attempt refunded", storable.MustJSON(now), err)
	}
	if results, err := h.api.Results(t.Context(), id); err != nil || len(results) != 0 {
		t.Errorf("%d results, %v; want none", len(results), err)
	}
}

func TestAStoppingWorkerLetsItsTaskFinish(t *testing.T) {
	t.Parallel()
	h, worker, task, finish := oneRunningTask(t, "--drain-grace", "50s")
	worker.signal(syscall.SIGTERM)
	worker.says("stop") // it has received the signal
	other := h.submit(t, spec("drain"))
	close(finish)
	if code := worker.wait(); code != 0 {
		t.Errorf("the worker ended with code %d", code)
	}
	h.await(t, task.ID).succeeded("finished")
	if now, err := h.api.Task(t.Context(), other.ID); err != nil || now.Status != bloom.TaskQueued || now.Epoch != 0 {
		t.Errorf("a task posted to a stopping worker = %s, %v; want it untouched", storable.MustJSON(now), err)
	}
}

func TestAStoppingWorkerReleasesUnfinishedTasks(t *testing.T) {
	t.Parallel()
	h, worker, task, _ := oneRunningTask(t, "--drain-grace", "1s")
	if code := worker.terminate(); code != 0 {
		t.Errorf("the worker ended with code %d", code)
	}
	h.released(t, task.ID)
}

func TestASecondSignalEndsTheGracePeriod(t *testing.T) {
	t.Parallel()
	h, worker, task, _ := oneRunningTask(t, "--drain-grace", "30m")
	worker.signal(syscall.SIGTERM)
	worker.says("stop")
	if code := worker.terminate(); code != 0 {
		t.Errorf("the worker ended with code %d", code)
	}
	h.released(t, task.ID)
}

// TestAStoppingServerDoesNotWaitForOpenStreams stops a server with open long polls and streams.
func TestAStoppingServerDoesNotWaitForOpenStreams(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	server := h.serve("--shutdown-grace", "50s")
	h.work(workerOptions{name: "listening"})
	h.script("quick", standin.Sequence(standin.Reply{Text: "done"}))
	h.await(t, h.submit(t, spec("quick")).ID).succeeded("done")
	waiting := h.submit(t, at("nobody", spec("quick")))
	for _, path := range []string{"/events", "/llm-tasks/" + waiting.ID + "/events"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/runtime"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Runtime-API-Key", adminKey)
		req.Header.Set("Accept", "text/event-stream")
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v", path, err)
		}
		defer resp.Body.Close()
	}
	if code := server.terminate(); code != 0 {
		t.Errorf("the server ended with code %d", code)
	}
	if strings.Contains(server.out.String(), "did not finish in time") {
		t.Error("the server waited for its grace to be over")
	}
	h.serve()
	if now, err := h.api.Task(t.Context(), waiting.ID); err != nil || now.Status != bloom.TaskQueued {
		t.Errorf("the waiting task = %+v, %v", now, err)
	}
}
