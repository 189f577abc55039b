package e2e_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// TestMembridgeIsDownWhileFiftyTasksRun kills the control plane while 50 tasks run (a stub replaces
// claude). Half of them end while it is down, half after it is back. It stays down until the
// runtime has counted failures, or for as long as BLOOM_TEST_OUTAGE says.
func TestMembridgeIsDownWhileFiftyTasksRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.bridge()
	plane := b.start()
	b.serveFor("--membridge-sync-interval", "500ms")
	var tasks []bloom.Task
	for _, name := range []string{"during", "after"} {
		h.stubWorker(name, h.gate("gate-"+name), "--max-concurrency", "25", "--runtime-url", h.url, "--membridge-url", b.url)
		for i := range 25 {
			s := at(name, spec(name))
			s.ContextID, s.Policy.TimeoutSec = fmt.Sprint(name, i), 600
			tasks = append(tasks, h.submit(t, s))
		}
	}
	eventually(t, "50 tasks run and both workers are known", func() bool {
		running, _, err := h.api.Tasks(t.Context(), bloom.TaskQuery{Status: bloom.TaskRunning})
		return err == nil && len(running) == 50 && b.knows(t, "during", bloom.WorkerOnline) && b.knows(t, "after", bloom.WorkerOnline)
	})
	if l := h.link(t); !l.Connected || l.ConsecutiveFailures != 0 {
		t.Fatalf("health before: %s", storable.MustJSON(l))
	}

	plane.kill()
	down := time.Now()
	eventually(t, "health shows the failures", func() bool {
		l := h.link(t)
		return !l.Connected && l.ConsecutiveFailures >= 8 && l.LastError != nil && l.LastSuccess != nil
	})
	file(t, h.gate("gate-during"), "")
	for _, task := range tasks[:25] {
		h.await(t, task.ID).succeeded("pong")
	}
	if d, err := time.ParseDuration(os.Getenv("BLOOM_TEST_OUTAGE")); err == nil {
		time.Sleep(d - time.Since(down))
	}
	for _, name := range []string{"during", "after"} {
		if w, ok := h.worker(t, name); !ok || w.Status != bloom.WorkerOnline {
			t.Errorf("without membridge %s is %s", name, w.Status)
		}
	}
	t.Logf("membridge was down for %s; health said %s", time.Since(down).Round(time.Millisecond), storable.MustJSON(h.link(t)))

	b.start()
	eventually(t, "health shows that it is back", func() bool { l := h.link(t); return l.Connected && l.ConsecutiveFailures == 0 })
	eventually(t, "both workers are back", func() bool {
		return b.knows(t, "during", bloom.WorkerOnline) && b.knows(t, "after", bloom.WorkerOnline)
	})
	file(t, h.gate("gate-after"), "")
	for _, task := range tasks[25:] {
		o := h.await(t, task.ID)
		o.succeeded("pong")
		if o.task.Attempts != 1 {
			t.Errorf("task %s took %d attempts", task.ID, o.task.Attempts)
		}
	}
}
