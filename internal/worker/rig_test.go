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
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits for what must come; nothing is ever awaited by sleeping.
const patience = 3 * time.Minute

// fakeRunner stands for the claude command line: it tells of each run and lets
// the test say how it goes.
type fakeRunner struct {
	runs chan *fakeRun
	quit chan struct{}
}

type fakeRun struct {
	ctx  context.Context
	task bloom.Task
	emit func(string, any)
	end  chan bloom.Run // what the run answers
	bang chan string    // what the run panics with
}

func newFakeRunner(t *testing.T) *fakeRunner {
	f := &fakeRunner{runs: make(chan *fakeRun, 64), quit: make(chan struct{})}
	t.Cleanup(func() { close(f.quit) })
	return f
}

func (f *fakeRunner) Run(ctx context.Context, task bloom.Task, emit func(string, any)) bloom.Run {
	r := &fakeRun{ctx: ctx, task: task, emit: emit, end: make(chan bloom.Run, 1), bang: make(chan string, 1)}
	f.runs <- r
	select {
	case run := <-r.end:
		return run
	case text := <-r.bang:
		panic(text)
	case <-ctx.Done():
		message := "stopped: " + context.Cause(ctx).Error()
		return bloom.Run{Completion: bloom.Completion{Status: bloom.OutcomeError, ErrorMessage: &message, ErrorClass: bloom.ClassCrashed, Retryable: true}}
	case <-f.quit:
		return bloom.Run{}
	}
}

func success(output string) bloom.Run {
	return bloom.Run{Completion: bloom.Completion{Status: bloom.OutcomeSuccess, Output: &output}}
}

// next waits for the next run to begin.
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
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// bench is a runtime and what a test needs around a worker.
type bench struct {
	*testing.T
	rt     *runtimetest.Runtime
	api    *client.Client
	runner *fakeRunner
	dir    string
	logs   *logTap
}

func newBench(t *testing.T) *bench {
	t.Parallel()
	b := &bench{T: t, rt: runtimetest.Start(t), runner: newFakeRunner(t), dir: t.TempDir(), logs: newLogTap()}
	b.api = b.rt.Client()
	return b
}

// life is one run of a worker.
type life struct {
	b      *bench
	w      *worker.Worker
	cancel context.CancelFunc
	ended  chan error
	over   bool
}

func (b *bench) config(change func(*worker.Config)) worker.Config {
	cfg := worker.Config{
		Client: b.rt.Client(), Name: "node", StateDir: b.dir, Runner: b.runner,
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 2},
		PollWait:     2 * time.Second, FlushWait: patience, DeliverWait: 2 * time.Second,
		Logger: slog.New(b.logs),
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// start runs a worker until the test ends or stop is called; it has heard
// before whether the control plane drains it.
func (b *bench) start(change func(*worker.Config), before ...bool) *life {
	b.Helper()
	w, err := worker.New(b.config(change))
	if err != nil {
		b.Fatal(err)
	}
	for _, o := range before {
		w.FollowControlPlane(o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{b: b, w: w, cancel: cancel, ended: make(chan error, 1)}
	go func() { l.ended <- w.Run(ctx) }()
	b.Cleanup(func() {
		w.Cut()
		cancel()
		if !l.over {
			<-l.ended
		}
	})
	return l
}

// result waits for Run to return.
func (l *life) result() error {
	l.b.Helper()
	err := receive(l.b.T, l.ended, "the worker to end")
	l.over = true
	return err
}

// until waits for a status of the task, by its stream.
func (b *bench) until(id string, want bloom.TaskStatus) bloom.Task {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	task, err := b.api.Task(ctx, id)
	for err == nil && task.Status != want {
		select {
		case <-time.After(10 * time.Millisecond): // polls the server's state; nothing is assumed of its speed
			task, err = b.api.Task(ctx, id)
		case <-ctx.Done():
			b.Fatalf("task is %q, waited for %q", task.Status, want)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return task
}

func (b *bench) events(id string) []bloom.Event {
	b.Helper()
	events, err := b.rt.Store.Events(b.Context(), id, 0, 1000)
	if err != nil {
		b.Fatal(err)
	}
	return events
}

// logTap lets tests wait for what the worker says.
type logTap struct {
	mu   sync.Mutex
	said []string
	tell chan struct{}
}

func newLogTap() *logTap { return &logTap{tell: make(chan struct{})} }

func (l *logTap) Enabled(context.Context, slog.Level) bool { return true }
func (l *logTap) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logTap) WithGroup(string) slog.Handler            { return l }

func (l *logTap) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, r.Message)
	close(l.tell)
	l.tell = make(chan struct{})
	return nil
}

// await waits until the message was said.
func (l *logTap) await(t *testing.T, message string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		tell := l.tell
		for _, m := range l.said {
			if m == message {
				l.mu.Unlock()
				return
			}
		}
		said := l.said
		l.mu.Unlock()
		select {
		case <-tell:
		case <-deadline:
			t.Fatalf("never said %q, but %q", message, said)
		}
	}
}
