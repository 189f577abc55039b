package worker_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for a signal before they fail.
const patience = 3 * time.Minute

// fakeRunner replaces claude: it reports each run and lets the test decide how the run
// ends.
type fakeRunner struct {
	runs chan *fakeRun
	quit chan struct{}
}

type fakeRun struct {
	ctx    context.Context
	task   bloom.Task
	emit   func(string, any)
	end    chan attempt.Run // what the run answers
	panics chan string      // what the run panics with
}

func newFakeRunner(t *testing.T) *fakeRunner {
	f := &fakeRunner{runs: make(chan *fakeRun, 64), quit: make(chan struct{})}
	t.Cleanup(func() { close(f.quit) })
	return f
}

func (f *fakeRunner) Run(ctx context.Context, task bloom.Task, emit func(string, any)) attempt.Run {
	r := &fakeRun{ctx: ctx, task: task, emit: emit, end: make(chan attempt.Run, 1), panics: make(chan string, 1)}
	f.runs <- r
	select {
	case run := <-r.end:
		return run
	case text := <-r.panics:
		panic(text)
	case <-ctx.Done():
		message := "stopped: " + context.Cause(ctx).Error()
		return attempt.Run{Completion: bloom.Completion{Status: bloom.OutcomeError, ErrorMessage: &message, ErrorClass: bloom.ClassCrashed, Retryable: true}}
	case <-f.quit:
		return attempt.Run{}
	}
}

func success(output string) attempt.Run {
	return attempt.Run{Completion: bloom.Completion{Status: bloom.OutcomeSuccess, Output: &output}}
}

// next waits until the next run begins.
func (f *fakeRunner) next(t *testing.T) *fakeRun {
	t.Helper()
	return receive(t, f.runs, "a run to begin")
}

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

// harness is a runtime and what a test needs around a worker.
type harness struct {
	*testing.T
	rt     *runtimetest.Runtime
	api    *client.Client
	runner *fakeRunner
	dir    string
	logs   *logRecorder
}

func newHarness(t *testing.T) *harness {
	t.Parallel()
	h := &harness{T: t, rt: runtimetest.Start(t), runner: newFakeRunner(t), dir: t.TempDir(), logs: newLogRecorder()}
	h.api = h.rt.Client()
	return h
}

// workerRun is one run of a worker.
type workerRun struct {
	h      *harness
	w      *worker.Worker
	cancel context.CancelFunc
	ended  chan error
	over   bool
}

func (h *harness) config(change func(*worker.Config)) worker.Config {
	cfg := worker.Config{
		Client: h.rt.Client(), Name: "node", StateDir: h.dir, Runner: h.runner,
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 2},
		PollWait:     2 * time.Second, FlushWait: patience, DeliverWait: 2 * time.Second,
		Logger: slog.New(h.logs),
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// start runs a worker until the test ends. The values of before are whether the control
// plane drained it before it started.
func (h *harness) start(change func(*worker.Config), before ...bool) *workerRun {
	h.Helper()
	w, err := worker.New(h.config(change))
	if err != nil {
		h.Fatal(err)
	}
	for _, o := range before {
		w.FollowControlPlane(o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &workerRun{h: h, w: w, cancel: cancel, ended: make(chan error, 1)}
	go func() { l.ended <- w.Run(ctx) }()
	h.Cleanup(func() {
		w.StopNow()
		cancel()
		if !l.over {
			<-l.ended
		}
	})
	return l
}

// result waits for Run to return.
func (l *workerRun) result() error {
	l.h.Helper()
	err := receive(l.h.T, l.ended, "the worker to end")
	l.over = true
	return err
}

// until waits until the task has a status.
func (h *harness) until(id string, want bloom.TaskStatus) bloom.Task {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	task, err := h.api.Task(ctx, id)
	for err == nil && task.Status != want {
		select {
		case <-time.After(10 * time.Millisecond): // polls the server's state
			task, err = h.api.Task(ctx, id)
		case <-ctx.Done():
			h.Fatalf("task is %q, waited for %q", task.Status, want)
		}
	}
	if err != nil {
		h.Fatal(err)
	}
	return task
}

func (h *harness) events(id string) []bloom.Event {
	h.Helper()
	events, err := h.rt.Store.Events(h.Context(), id, 0, 1000)
	if err != nil {
		h.Fatal(err)
	}
	return events
}

// logRecorder lets tests wait for log messages.
type logRecorder struct {
	mu       sync.Mutex
	messages []string
	changed  chan struct{}
}

func newLogRecorder() *logRecorder { return &logRecorder{changed: make(chan struct{})} }

func (l *logRecorder) Enabled(context.Context, slog.Level) bool { return true }
func (l *logRecorder) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logRecorder) WithGroup(string) slog.Handler            { return l }

func (l *logRecorder) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, r.Message)
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// await waits until the message was logged.
func (l *logRecorder) await(t *testing.T, message string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		changed := l.changed
		for _, m := range l.messages {
			if m == message {
				l.mu.Unlock()
				return
			}
		}
		messages := l.messages
		l.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%q was not logged, only %q", message, messages)
		}
	}
}
