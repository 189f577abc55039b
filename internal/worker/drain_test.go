package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestAWorkerDrainedAtTheControlPlaneTakesNothingAndFinishesWhatItHas(t *testing.T) {
	b := newBench(t)
	life := b.start(nil)
	first := b.rt.Submit("ctx", "begun before")
	run := b.runner.next(t)

	life.w.FollowControlPlane(true)
	life.w.FollowControlPlane(true)
	b.logs.await(t, "drained at the control plane: no new tasks are taken until it undrains this worker")
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Capabilities.ClaudeCLI })
	second := b.rt.Submit("other", "posted meanwhile")
	if _, _, err := b.rt.Store.LeaseTask(t.Context(), bloom.LeaseRequest{TaskID: second.ID}); !errors.Is(err, bloom.ErrNoWorker) {
		t.Fatalf("it was picked for a task: %v", err)
	}
	run.end <- success("done")
	b.until(first.ID, bloom.TaskCompleted)
	if !life.w.Status().Draining {
		t.Error("its status does not say that it takes nothing")
	}

	life.w.FollowControlPlane(false)
	b.logs.await(t, "undrained at the control plane")
	b.runner.next(t).end <- success("done too")
	if done := b.until(second.ID, bloom.TaskCompleted); done.Attempts != 1 {
		t.Errorf("the task took %d attempts", done.Attempts)
	}
	b.shows(func(w bloom.Worker) bool { return !w.Draining })
	life.w.FollowControlPlane(true)
	b.shows(func(w bloom.Worker) bool { return w.Draining })
}

// shows waits until the runtime shows the worker so.
func (b *bench) shows(want func(bloom.Worker) bool) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		w, _, err := b.rt.Store.Worker(b.Context(), "node")
		if err == nil && want(w) {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the runtime shows it as %+v, %v", w, err)
		}
	}
}

// leaves stops the worker in order.
func (l *life) leaves() {
	l.b.Helper()
	l.cancel()
	if err := l.result(); err != nil {
		l.b.Fatal(err)
	}
}

// drainedThere waits until the runtime knows that the control plane drains so many workers.
func (b *bench) drainedThere(want int) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		names, err := b.rt.Store.ControlDrained(b.Context())
		if err == nil && len(names) == want {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the runtime knows %v, %v", names, err)
		}
	}
}

// takes wants the worker to take a task.
func (b *bench) takes() {
	b.Helper()
	task := b.rt.Submit("ctx", "posted afterwards")
	b.runner.next(b.T).end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)
}

func TestADrainedWorkerIsUndrainedWhereItWasDrained(t *testing.T) {
	b := newBench(t)
	life := b.start(func(c *worker.Config) { c.PollWait = time.Minute }) // it is not what ends the waiting
	here := func(drain, want bool) {
		t.Helper()
		if w, err := b.api.DrainWorker(t.Context(), "node", drain); err != nil || w.Draining != want {
			t.Fatalf("%+v, %v, want draining %v", w, err, want)
		}
	}
	b.shows(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline })
	here(true, true)
	b.logs.await(t, "drained at the server: no new tasks are taken until the worker is undrained")
	life.w.FollowControlPlane(true)
	b.drainedThere(1)
	here(false, true)
	here(true, true)
	life.w.FollowControlPlane(false)
	b.drainedThere(0)
	life.leaves()
	life = b.start(nil, false)
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
	here(false, false)
	b.takes()
	life.w.FollowControlPlane(true)
	b.shows(func(w bloom.Worker) bool { return w.Draining })
	here(false, true)
	life.w.FollowControlPlane(false)
	b.shows(func(w bloom.Worker) bool { return !w.Draining })
	b.takes()
}

func TestAfterARestartTheControlPlaneSaysItAgain(t *testing.T) {
	b := newBench(t)
	life := b.start(nil, true)
	b.shows(func(w bloom.Worker) bool { return w.Draining })
	life.leaves()
	life = b.start(nil) // which has heard nothing: what the runtime knows stands
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
	life.leaves()
	life = b.start(nil, false) // undrained while it was away
	b.takes()
	b.shows(func(w bloom.Worker) bool { return !w.Draining })
	life.leaves()
	b.start(nil, true) // drained while it was away
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
}

func TestWhatTheControlPlaneSaidWhileTheRuntimeWasAwayIsReported(t *testing.T) {
	b := newBench(t)
	b.rt.Down()
	life := b.start(nil, true)
	b.logs.await(b.T, "no work can be claimed; running tasks go on while their leases last")
	b.rt.Up()
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
	b.rt.Down()
	life.w.FollowControlPlane(false)
	b.rt.Up()
	b.takes()
	b.shows(func(w bloom.Worker) bool { return !w.Draining })
}

func TestAWorkerThatStopsInOrderIsOfflineAtOnce(t *testing.T) {
	b := newBench(t)
	left := make(chan struct{})
	life := b.start(func(c *worker.Config) { c.Leaving = func() { close(left) } })
	task := b.rt.Submit("ctx", "a task")
	b.runner.next(t).end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)
	life.leaves()
	<-left
	w, _, err := b.rt.Store.Worker(t.Context(), "node")
	if err != nil || w.Status != bloom.WorkerOffline || !w.Capabilities.ClaudeCLI || w.Draining {
		t.Errorf("the runtime shows %+v, %v", w, err)
	}
	b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline })
}
