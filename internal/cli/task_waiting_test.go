package cli_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

func TestSubmitSaysWhyItIsStillTrying(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	notified := make(chan struct{})
	p.stderr = func(b []byte) {
		if strings.Contains(string(b), "cannot reach its database. Still trying") {
			close(notified)
		}
	}
	rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodPost:
			<-notified // the response arrives after the notification
			return false
		case strings.HasSuffix(r.URL.Path, "/health"):
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":"degraded","service":"bloom-runtime"}`))
			return true
		}
		return false
	})
	if id := strings.TrimSpace(p.must("task", "submit", "x")); len(id) != 36 {
		t.Errorf("no id: %q", id)
	}
}

func TestAMissingHintIsShownWithItsReason(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	employ(t, rt, []bloom.WorkerEvent{event(1, "hint_missing", map[string]string{"hint": "notes.md", "reason": "no such file"})},
		bloom.Completion{Status: bloom.OutcomeSuccess, Output: text("done")})
	got := newPerson(t, rt).run("task", "run", "x", "--hint", "notes.md")
	if !strings.Contains(got.err, "hint notes.md is skipped: no such file") {
		t.Errorf("notified: %s", got.err)
	}
}

func TestTaskGetSaysWhatAQueuedTaskWaitsFor(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	task, err := rt.Client().Submit(t.Context(), bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"})
	if err != nil {
		t.Fatal(err)
	}
	p := newPerson(t, rt)
	if got := p.run("task", "get", task.ID); got.code != cli.ExitOK || !strings.Contains(got.out, "No worker is registered; start one with: bloom worker") {
		t.Errorf("exit code %d, output %q, errors %q", got.code, got.out, got.err)
	}
	if got := p.run("task", "get", task.ID, "--json"); !strings.Contains(got.out, `"reason": "no_worker_registered"`) {
		t.Errorf("as JSON: %q, errors %q", got.out, got.err)
	}
}

func TestTaskRunSaysWhatATaskWaitsFor(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	notified := make(chan struct{})
	var once sync.Once
	p.stderr = func(b []byte) {
		if strings.Contains(string(b), "! waiting: No worker is registered") {
			once.Do(func() { close(notified) })
		}
	}
	var got outcome
	var running sync.WaitGroup
	running.Go(func() { got = p.run("task", "run", "What is it?") })
	select {
	case <-notified:
	case <-time.After(time.Minute):
		t.Error("it never says what the task waits for")
	}
	employ(t, rt, nil, succeeding("the answer"))
	running.Wait()
	if got.code != cli.ExitOK {
		t.Errorf("exit code %d, errors %q", got.code, got.err)
	}
}
