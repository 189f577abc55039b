package worker_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
)

func TestAnOutcomeSurvivesTheServersAbsenceAndTheWorkersRestart(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	h.rt.Down()
	run.end <- success("kept")
	h.logs.await(t, "an outcome could not be delivered; it is kept and retried")
	l.w.Stop()
	if err := l.result(); err != nil {
		t.Fatalf("drain: %v", err)
	}
	if files := outbox(t, h.dir); len(files) != 1 {
		t.Fatalf("the outbox holds %q", files)
	}
	h.rt.Up()
	h.start(nil)
	h.until(task.ID, bloom.TaskCompleted)
	// The worker may not have received the answer yet; wait until it has removed the file.
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		files := outbox(t, h.dir)
		if len(files) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("delivered, but the outbox still holds %q", files)
		}
	}
}

func TestALostAnswerToACompletionMakesOneResult(t *testing.T) {
	h := newHarness(t)
	var done atomic.Bool
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/complete") && done.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	h.runner.next(t).end <- success("one")
	h.until(task.ID, bloom.TaskCompleted)
	if results, _ := h.api.Results(t.Context(), task.ID); len(results) != 1 {
		t.Fatalf("results %+v", results)
	}
}

// unavailable answers a request as an overloaded server does.
func unavailable(w http.ResponseWriter) bool {
	w.WriteHeader(http.StatusServiceUnavailable)
	return true
}

func TestARestartedWorkerReportsAnInterruptedAttempt(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	// Simulate a kill: there is a journal entry and an active lease, but no outcome. An
	// orderly end of Run removes the entry, so restore it afterwards.
	note := filepath.Join(h.dir, "leases", *run.task.LeaseID+".json")
	raw, err := os.ReadFile(note)
	if err != nil {
		t.Fatalf("no note of the work was made before it began: %v", err)
	}
	h.rt.Down() // the first process can no longer report anything
	l.w.StopNow()
	_ = l.result()
	for _, file := range outbox(t, h.dir) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(note, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	h.rt.Up()
	h.start(nil)
	got := h.until(task.ID, bloom.TaskQueued)
	if got.Attempts != 1 || got.ErrorClass == nil || *got.ErrorClass != bloom.ClassWorkerLost {
		t.Fatalf("%+v", got.TaskState)
	}
	select {
	case r := <-h.runner.runs:
		t.Fatalf("work was begun again under lease %s", *r.task.LeaseID)
	default:
	}
}

func outbox(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "outbox", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAPanicFailsTheAttempt(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	h.runner.next(t).panics <- "boom"
	if got := h.until(task.ID, bloom.TaskFailed); *got.ErrorClass != bloom.ClassInternal {
		t.Fatalf("class %q", *got.ErrorClass)
	}
	h.rt.Submit("ctx", "and on")
	h.runner.next(t)
}

func TestInvalidOutcomesAreCorrectedAndDelivered(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	negative, notANumber := int64(-5), 0.0
	notANumber /= notANumber
	for name, run := range map[string]attempt.Run{
		"an empty run":               {},
		"NUL and invalid UTF-8":      success("a\x00b\xff\xed\xa0\x80"),
		"metrics that mean nothing":  {Completion: bloom.Completion{Status: "success", Metrics: bloom.Metrics{DurationMS: -1, TokensUsed: &negative, CostUSD: &notANumber, CostKind: "free"}}},
		"labels beyond their limits": {Completion: bloom.Completion{Status: "odd", ErrorClass: strings.Repeat("ü", 200), ArtifactType: strings.Repeat("x", 999), ArtifactTags: make([]string, 300)}},
		"longer than a body may be":  success(strings.Repeat("\x01", 6<<20)),
	} {
		task := h.rt.Submit("ctx", name)
		h.runner.next(t).end <- run
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := h.api.Await(ctx, task.ID)
		cancel()
		if err != nil || (got.Status != bloom.TaskCompleted && got.Status != bloom.TaskFailed) {
			t.Fatalf("%s: %s, %v", name, got.Status, err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(h.dir, "outbox", "refused", "*")); len(files) != 0 {
		t.Fatalf("the server refused %q", files)
	}
}

func TestARefusedOutcomeIsMovedAside(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	task := h.rt.Submit("ctx", "do it")
	var refuse atomic.Bool
	h.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/complete") || !refuse.CompareAndSwap(false, true) {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "no", "code": bloom.CodeInvalid, "request_id": "1"})
		return true
	})
	old := filepath.Join(h.dir, "outbox", "refused", "old.json")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-31*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	h.runner.next(t).end <- success("precious")
	h.until(task.ID, bloom.TaskFailed) // by the substitute
	files, _ := filepath.Glob(filepath.Join(h.dir, "outbox", "refused", "*.json"))
	if len(files) != 1 {
		t.Fatalf("set aside: %q", files)
	}
	if raw, _ := os.ReadFile(files[0]); !strings.Contains(string(raw), "precious") || !strings.Contains(string(raw), `"refused": "no"`) {
		t.Fatalf("set aside: %s", raw)
	}
}
