package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestATaskIsRunAndReported(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	if got := b.until(task.ID, bloom.TaskRunning); got.WorkerID == nil || *got.WorkerID != "node" {
		t.Fatalf("runs on %v", got.WorkerID)
	}
	for i := range 50 {
		run.emit("text", map[string]int{"n": i})
	}
	run.end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)

	results, err := b.api.Results(t.Context(), task.ID)
	if err != nil || len(results) != 1 || *results[0].Output != "done" {
		t.Fatalf("results %+v, %v", results, err)
	}
	next := 0
	started := false
	for _, e := range b.events(task.ID) {
		switch e.Type {
		case bloom.EventStarted:
			started = true
		case "text":
			if want := fmt.Sprintf(`{"n":%d}`, next); string(e.Data) != want || !started {
				t.Fatalf("event %d is %s, want %s after the start", e.Seq, e.Data, want)
			}
			next++
		}
	}
	if next != 50 {
		t.Fatalf("%d of 50 events arrived before the completion", next)
	}
}

func TestClaimsUpToItsFreeSlotsAndRefillsAtOnce(t *testing.T) {
	b := newBench(t)
	l := b.start(func(c *worker.Config) { c.PollWait = time.Minute })
	for range 3 {
		b.rt.Submit("ctx", "do it")
	}
	first := b.runner.next(t)
	b.runner.next(t)
	if s := l.w.Status(); s.Running != 2 {
		t.Fatalf("runs %d tasks", s.Running)
	}
	select {
	case <-b.runner.runs:
		t.Fatal("a third task was begun on two slots")
	default:
	}
	first.end <- success("a")
	b.runner.next(t) // within a poll of a minute: the full worker's poll was interrupted
}

func TestACancelledTaskIsStopped(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	if _, err := b.api.Cancel(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	receive(t, run.ctx.Done(), "the run to be stopped")
	if cause := context.Cause(run.ctx); !errors.Is(cause, bloom.ErrCancelled) {
		t.Fatalf("stopped because of %v", cause)
	}
	if got := b.until(task.ID, bloom.TaskCancelled); *got.ErrorClass != bloom.ClassCancelled {
		t.Fatalf("class %q", *got.ErrorClass)
	}
}

func TestALostLeaseStopsTheWorkAndItsResultIsDiscarded(t *testing.T) {
	b := newBench(t)
	l := b.start(func(c *worker.Config) { c.LeaseTTL = time.Second })
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	if err := b.api.RemoveWorker(t.Context(), "node"); err != nil {
		t.Fatal(err)
	}
	receive(t, run.ctx.Done(), "the run to be stopped")
	if cause := context.Cause(run.ctx); !errors.Is(cause, bloom.ErrLeaseGone) {
		t.Fatalf("stopped because of %v", cause)
	}
	// Forgotten, it registers again by itself and takes the task anew.
	again := b.runner.next(t)
	if again.task.ID != task.ID || *again.task.LeaseID == *run.task.LeaseID {
		t.Fatalf("ran %s under %s again", again.task.ID, *again.task.LeaseID)
	}
	again.end <- success("second")
	b.until(task.ID, bloom.TaskCompleted)
	results, _ := b.api.Results(t.Context(), task.ID)
	if len(results) != 1 || *results[0].Output != "second" {
		t.Fatalf("results %+v", results)
	}
	if s := l.w.Status(); s.Lost != 1 {
		t.Fatalf("counts %d lost leases", s.Lost)
	}
}

func TestWorkStopsWhenTheLeaseCannotBeRenewed(t *testing.T) {
	b := newBench(t)
	b.start(func(c *worker.Config) { c.LeaseTTL = time.Second })
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	began := time.Now()
	b.rt.Down()
	receive(t, run.ctx.Done(), "the run to be stopped")
	if cause := context.Cause(run.ctx); !errors.Is(cause, bloom.ErrLeaseGone) {
		t.Fatalf("stopped because of %v", cause)
	}
	if early := time.Since(began); early < 100*time.Millisecond {
		t.Fatalf("an unreachable server was taken for a lost lease after %s", early)
	}
	// The lease still stands when the server is back: it comes back to us, and
	// is reported as lost work instead of being run a second time.
	b.rt.Up()
	b.logs.await(t, "a lease whose work was cut short came back; the attempt is reported as lost")
	if got := b.until(task.ID, bloom.TaskQueued); got.Attempts != 1 || *got.ErrorClass != bloom.ClassWorkerLost {
		t.Fatalf("attempts %d, class %q", got.Attempts, *got.ErrorClass)
	}
}

func TestAnOutcomeSurvivesTheServersAbsenceAndTheWorkersRestart(t *testing.T) {
	b := newBench(t)
	l := b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	b.rt.Down()
	run.end <- success("kept")
	b.logs.await(t, "an outcome could not be delivered yet; it is kept and tried again")
	l.w.Drain()
	if err := l.result(); err != nil {
		t.Fatalf("drain: %v", err)
	}
	if files := outbox(t, b.dir); len(files) != 1 {
		t.Fatalf("the outbox holds %q", files)
	}
	b.rt.Up()
	b.start(nil)
	b.until(task.ID, bloom.TaskCompleted)
	// The answer may still be under way: a worker stopped now, before it has
	// registered, would leave the file and deliver once more in its next life.
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		files := outbox(t, b.dir)
		if len(files) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("delivered, but the outbox still holds %q", files)
		}
	}
}

func TestTheServerIsReplacedInTheMiddleOfARun(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	run.emit("text", "before")
	b.rt.Down()
	run.emit("text", "between")
	b.rt.Up()
	run.emit("text", "after")
	run.end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)
	var texts []string
	for _, e := range b.events(task.ID) {
		if e.Type == "text" {
			texts = append(texts, string(e.Data))
		}
	}
	if got := strings.Join(texts, " "); got != `"before" "between" "after"` {
		t.Fatalf("events: %s", got)
	}
}

func TestALostAnswerToACompletionMakesOneResult(t *testing.T) {
	b := newBench(t)
	var cutOnce atomic.Bool
	b.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/complete") && cutOnce.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	b.runner.next(t).end <- success("one")
	b.until(task.ID, bloom.TaskCompleted)
	if results, _ := b.api.Results(t.Context(), task.ID); len(results) != 1 {
		t.Fatalf("results %+v", results)
	}
}

func TestEventsSentTwiceAreKeptOnce(t *testing.T) {
	b := newBench(t)
	var cutOnce atomic.Bool
	b.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events") && cutOnce.CompareAndSwap(false, true) && answerOnce(w)
	})
	b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	run.emit("text", 1)
	run.emit("text", 2)
	run.end <- success("")
	b.until(task.ID, bloom.TaskCompleted)
	n := 0
	for _, e := range b.events(task.ID) {
		if e.Type == "text" {
			n++
		}
	}
	if n != 2 {
		t.Fatalf("%d events of 2", n)
	}
}

// answerOnce fails a request as an overloaded server would.
func answerOnce(w http.ResponseWriter) bool {
	w.WriteHeader(http.StatusServiceUnavailable)
	return true
}

func TestARestartedWorkerReportsWhatItsEarlierLifeBegan(t *testing.T) {
	b := newBench(t)
	l := b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	// What kill -9 leaves: the journal's note, no outcome, and a lease that
	// stands. Run's end is what a test has instead, so the note is kept aside.
	note := filepath.Join(b.dir, "leases", *run.task.LeaseID+".json")
	raw, err := os.ReadFile(note)
	if err != nil {
		t.Fatalf("no note of the work was made before it began: %v", err)
	}
	b.rt.Down() // the first life can report nothing any more
	l.w.Cut()
	_ = l.result()
	for _, file := range outbox(t, b.dir) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(note, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b.rt.Up()
	b.start(nil)
	got := b.until(task.ID, bloom.TaskQueued)
	if got.Attempts != 1 || got.ErrorClass == nil || *got.ErrorClass != bloom.ClassWorkerLost {
		t.Fatalf("%+v", got.TaskState)
	}
	select {
	case r := <-b.runner.runs:
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

func TestDrainLetsRunningTasksEnd(t *testing.T) {
	b := newBench(t)
	l := b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	l.cancel()
	b.logs.await(t, "stopping: no new tasks are taken")
	late := b.rt.Submit("ctx", "too late")
	run.end <- success("done")
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	b.until(task.ID, bloom.TaskCompleted)
	if got := b.until(late.ID, bloom.TaskQueued); got.Attempts != 0 {
		t.Fatalf("a draining worker took a task: %+v", got.TaskState)
	}
}

func TestDrainGivesBackWhatDoesNotEndWithinTheGrace(t *testing.T) {
	b := newBench(t)
	l := b.start(func(c *worker.Config) { c.Grace = -1 })
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	l.w.Drain()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(run.ctx); !errors.Is(cause, bloom.ErrDraining) {
		t.Fatalf("stopped because of %v", cause)
	}
	if got := b.until(task.ID, bloom.TaskQueued); got.Attempts != 0 || got.RunAt > bloom.Millis(time.Now()) {
		t.Fatalf("the attempt was not refunded: %+v", got.TaskState)
	}
}

func TestCutEndsTheGrace(t *testing.T) {
	b := newBench(t)
	l := b.start(func(c *worker.Config) { c.Grace = time.Hour })
	b.rt.Submit("ctx", "do it")
	b.runner.next(t)
	l.w.Drain()
	b.logs.await(t, "stopping: no new tasks are taken")
	l.w.Cut()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
}

func TestAWorkerDrainedAtTheServerTakesNothingUntilItIsUndrained(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	b.logs.await(t, "registered")
	if _, err := b.api.DrainWorker(t.Context(), "node", true); err != nil {
		t.Fatal(err)
	}
	b.logs.await(t, "drained at the server: no new tasks are taken until the worker is undrained")
	b.rt.Submit("ctx", "do it")
	if _, err := b.api.DrainWorker(t.Context(), "node", false); err != nil {
		t.Fatal(err)
	}
	b.logs.await(t, "undrained at the server")
	b.runner.next(t)
}

func TestARateLimitedTaskGoesBackAndTheWorkerParks(t *testing.T) {
	b := newBench(t)
	l := b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	until := time.Now().Add(time.Hour)
	b.runner.next(t).end <- bloom.Run{Release: &bloom.ReleaseSpec{Reason: "rate limited", NotBefore: bloom.Millis(until)}}
	got := b.until(task.ID, bloom.TaskQueued)
	if got.Attempts != 0 || got.RunAt != bloom.Millis(until) {
		t.Fatalf("%+v", got.TaskState)
	}
	if s := l.w.Status(); s.ParkedUntil.Before(time.Now()) {
		t.Fatalf("not parked: %+v", s)
	}
	found := false
	for _, e := range b.events(task.ID) {
		found = found || e.Type == "parked"
	}
	if !found {
		t.Fatal("the task's stream does not say why it waits")
	}
}

func TestAPanicIsAnAttemptsFailure(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	b.runner.next(t).bang <- "boom"
	if got := b.until(task.ID, bloom.TaskFailed); *got.ErrorClass != bloom.ClassInternal {
		t.Fatalf("class %q", *got.ErrorClass)
	}
	b.rt.Submit("ctx", "and on")
	b.runner.next(t)
}

func TestPoisonedOutcomesAreReportedAllTheSame(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	negative, notANumber := int64(-5), 0.0
	notANumber /= notANumber
	for name, run := range map[string]bloom.Run{
		"an empty run":               {},
		"NUL and invalid UTF-8":      success("a\x00b\xff\xed\xa0\x80"),
		"metrics that mean nothing":  {Completion: bloom.Completion{Status: "success", Metrics: bloom.Metrics{DurationMS: -1, TokensUsed: &negative, CostUSD: &notANumber, CostKind: "free"}}},
		"labels beyond their limits": {Completion: bloom.Completion{Status: "odd", ErrorClass: strings.Repeat("ü", 200), ArtifactType: strings.Repeat("x", 999), ArtifactTags: make([]string, 300)}},
		"longer than a body may be":  success(strings.Repeat("\x01", 12<<20)),
	} {
		task := b.rt.Submit("ctx", name)
		b.runner.next(t).end <- run
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := b.api.Await(ctx, task.ID)
		cancel()
		if err != nil || (got.Status != bloom.TaskCompleted && got.Status != bloom.TaskFailed) {
			t.Fatalf("%s: %s, %v", name, got.Status, err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(b.dir, "outbox", "refused", "*")); len(files) != 0 {
		t.Fatalf("the server refused %q", files)
	}
}

func TestARefusedOutcomeIsSetAsideAndSaid(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	var refuse atomic.Bool
	b.rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/complete") || !refuse.CompareAndSwap(false, true) {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "no", "code": bloom.CodeInvalid, "request_id": "1"})
		return true
	})
	b.runner.next(t).end <- success("precious")
	b.until(task.ID, bloom.TaskFailed) // by the substitute
	files, _ := filepath.Glob(filepath.Join(b.dir, "outbox", "refused", "*.json"))
	if len(files) != 1 {
		t.Fatalf("set aside: %q", files)
	}
	if raw, _ := os.ReadFile(files[0]); !strings.Contains(string(raw), "precious") || !strings.Contains(string(raw), `"refused": "no"`) {
		t.Fatalf("set aside: %s", raw)
	}
}

func TestTwoLivingWorkersDoNotShareAFolder(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	b.logs.await(t, "registered")
	second := b.start(nil)
	if err := second.result(); !errors.Is(err, worker.ErrStateInUse) {
		t.Fatalf("got %v", err)
	}
}

func TestTwoLivingWorkersDoNotShareAName(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	b.logs.await(t, "registered")
	b.rt.Submit("ctx", "do it")
	b.runner.next(t)
	second := b.start(func(c *worker.Config) { c.StateDir = t.TempDir() })
	if err := second.result(); !errors.Is(err, bloom.ErrWorkerConflict) {
		t.Fatalf("got %v", err)
	}
}

func TestACopiedFolderIsAnotherInstance(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	b.logs.await(t, "registered")
	b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	second := b.start(func(c *worker.Config) { c.StateDir = filepath.Join(dir, "copy") })
	if err := second.result(); !errors.Is(err, bloom.ErrWorkerConflict) {
		t.Fatalf("got %v", err)
	}
	select {
	case <-run.ctx.Done():
		t.Fatal("the copy stopped the first one's work")
	default:
	}
}

func TestAMovedFolderIsTheSameInstance(t *testing.T) {
	b := newBench(t)
	l := b.start(nil)
	b.logs.await(t, "registered")
	id := l.w.Status().InstanceID
	l.cancel()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(b.dir, moved); err != nil {
		t.Skip("the temporary folder spans file systems: ", err)
	}
	l = b.start(func(c *worker.Config) { c.StateDir = moved })
	b.rt.Submit("ctx", "do it")
	b.runner.next(t)
	if got := l.w.Status().InstanceID; got != id {
		t.Errorf("instance %s, was %s", got, id)
	}
}

func TestAReleaseForLaterIsBounded(t *testing.T) {
	b := newBench(t)
	l := b.start(nil)
	task := b.rt.Submit("ctx", "do it")
	run := b.runner.next(t)
	const year58860 = 1_795_312_999_000_000 // seconds times a million, as a provider once said
	run.end <- bloom.Run{Release: &bloom.ReleaseSpec{Reason: "limit", NotBefore: year58860}}
	day := time.Now().Add(24 * time.Hour)
	if got := b.until(task.ID, bloom.TaskQueued); time.UnixMilli(got.RunAt).After(day) {
		t.Errorf("it waits until %s", time.UnixMilli(got.RunAt))
	}
	if until := l.w.Status().ParkedUntil; until.IsZero() || until.After(day) {
		t.Errorf("the worker takes nothing until %s", until)
	}
	// The server does not take such a time from other workers either.
	other := b.rt.Submit("ctx", "do it")
	if _, _, err := b.api.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "other", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}); err != nil {
		t.Fatal(err)
	}
	granted, err := b.api.Lease(t.Context(), other.ID, client.LeaseOptions{WorkerID: "other"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.api.Release(t.Context(), other.ID, bloom.ReleaseSpec{LeaseID: granted.Lease.ID, NotBefore: year58860})
	if err != nil || time.UnixMilli(got.RunAt).After(time.Now().Add(bloom.MaxReleaseDelay+time.Minute)) {
		t.Errorf("it waits until %s, %v", time.UnixMilli(got.RunAt), err)
	}
}

func TestARestartedWorkerIsTakenBackAtOnce(t *testing.T) {
	b := newBench(t)
	for range 3 {
		l := b.start(nil)
		task := b.rt.Submit("ctx", "do it")
		b.runner.next(t).end <- success("")
		b.until(task.ID, bloom.TaskCompleted)
		l.cancel()
		if err := l.result(); err != nil {
			t.Fatal(err)
		}
	}
}
