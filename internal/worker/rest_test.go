package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestAWorkerThatRestsTakesNothingAndFinishesWhatItHas(t *testing.T) {
	b := newBench(t)
	life := b.start(nil)
	first := b.rt.Submit("ctx", "begun before")
	run := b.runner.next(t)

	life.w.Rest(bloom.DrainOrder{Drain: true})
	life.w.Rest(bloom.DrainOrder{Drain: true})
	b.logs.await(t, "ordered to rest: no new tasks are taken until the order is lifted")
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

	life.w.Rest(bloom.DrainOrder{})
	b.logs.await(t, "the order to rest was lifted")
	b.lifts(bloom.DrainOrder{Number: 1})
	b.runner.next(t).end <- success("done too")
	if done := b.until(second.ID, bloom.TaskCompleted); done.Attempts != 1 {
		t.Errorf("the task took %d attempts", done.Attempts)
	}
	b.shows(func(w bloom.Worker) bool { return !w.Draining })
	life.w.Rest(bloom.DrainOrder{Drain: true, Number: 2}) // another one, of which the runtime hears again
	b.shows(func(w bloom.Worker) bool { return w.Draining })
}

// lifts has the runtime follow the end of an order as it reads it from membridge:
// it would not take the worker's word for it.
func (b *bench) lifts(o bloom.DrainOrder) {
	b.Helper()
	if w, err := b.rt.Store.FollowDrain(b.Context(), "node", o, "membridge"); err != nil || w.Draining {
		b.Fatalf("%+v, %v", w, err)
	}
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

func TestAnOrderToRestThatIsLiftedAtTheRuntimeIsLifted(t *testing.T) {
	b := newBench(t)
	life := b.start(func(c *worker.Config) { c.PollWait = time.Minute }) // it is not what ends the waiting
	life.w.Rest(bloom.DrainOrder{Drain: true})
	b.shows(func(w bloom.Worker) bool { return w.Draining })
	if _, err := b.api.DrainWorker(t.Context(), "node", false); err != nil {
		t.Fatal(err)
	}
	task := b.rt.Submit("ctx", "posted afterwards")
	b.runner.next(t).end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)
}

func TestAnOrderToRestStandsOverARestartUntilItIsLifted(t *testing.T) {
	b := newBench(t)
	life := b.start(nil)
	life.w.Rest(bloom.DrainOrder{Drain: true, Number: 3})
	b.shows(func(w bloom.Worker) bool { return w.Draining })
	life.leaves()
	life = b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
	life.leaves()

	// Lifted at the runtime while the worker is away, it does not come back, even
	// when it is told once more.
	if _, err := b.api.DrainWorker(t.Context(), "node", false); err != nil {
		t.Fatal(err)
	}
	life = b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline })
	life.w.Rest(bloom.DrainOrder{Drain: true, Number: 3})
	b.logs.await(t, "the order to rest was lifted at the server")
	b.shows(func(w bloom.Worker) bool { return !w.Draining })
	task := b.rt.Submit("ctx", "posted afterwards")
	b.runner.next(t).end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)

	// The next order is another one.
	life.w.Rest(bloom.DrainOrder{Drain: true, Number: 4})
	b.shows(func(w bloom.Worker) bool { return w.Draining })
	life.leaves()
	life = b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
	life.w.Rest(bloom.DrainOrder{Number: 5})
	b.lifts(bloom.DrainOrder{Number: 5})
	task = b.rt.Submit("ctx", "posted at last")
	b.runner.next(t).end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)
	b.shows(func(w bloom.Worker) bool { return !w.Draining })
}

func TestAnOrderThatWasLiftedBeforeTheWorkerRunsIsNotTheNextOne(t *testing.T) {
	b := newBench(t)
	life := b.start(nil, bloom.DrainOrder{Drain: true, Number: 3})
	b.shows(func(w bloom.Worker) bool { return w.Draining })
	life.leaves()
	b.lifts(bloom.DrainOrder{Number: 4})
	life = b.start(nil, bloom.DrainOrder{Number: 4})
	b.shows(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline })
	life.w.Rest(bloom.DrainOrder{Drain: true, Number: 5})
	b.shows(func(w bloom.Worker) bool { return w.Draining })
}

func TestAnOrderGivenAnewBeforeTheWorkerRunsIsAnotherOne(t *testing.T) {
	b := newBench(t)
	life := b.start(nil, bloom.DrainOrder{Drain: true, Number: 3})
	b.shows(func(w bloom.Worker) bool { return w.Draining })
	life.leaves()
	b.lifts(bloom.DrainOrder{Number: 4})
	b.start(nil, bloom.DrainOrder{Drain: true, Number: 5})
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
}

func TestAnOrderGivenAnewBeforeItsLiftingIsHeardOfIsAnotherOne(t *testing.T) {
	b := newBench(t)
	life := b.start(nil, bloom.DrainOrder{Drain: true, Number: 3})
	b.shows(func(w bloom.Worker) bool { return w.Draining })
	b.lifts(bloom.DrainOrder{Number: 4})
	life.w.Rest(bloom.DrainOrder{Drain: true, Number: 5})
	b.shows(func(w bloom.Worker) bool { return w.Draining })
}

// away starts a worker that has heard of an order while the runtime is away, and has
// tried to tell it.
func (b *bench) away(o bloom.DrainOrder) *life {
	b.Helper()
	b.rt.Down()
	life := b.start(nil, o)
	b.logs.await(b.T, "no work can be claimed; running tasks go on while their leases last")
	return life
}

func TestAnOrderThatTheRuntimeNeverHeardOfIsToldByTheNextLife(t *testing.T) {
	b := newBench(t)
	b.away(bloom.DrainOrder{Drain: true, Number: 3}).leaves()
	b.rt.Up()
	b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
}

func TestAnOrderThatCameBeforeTheEndIsToldByTheNextLife(t *testing.T) {
	b := newBench(t)
	life := b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline })
	b.rt.Down()
	life.w.Rest(bloom.DrainOrder{Drain: true, Number: 3})
	life.leaves()
	b.rt.Up()
	b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
}

func TestAnOrderThatWasLiftedWhileTheRuntimeWasAwayIsNotTold(t *testing.T) {
	b := newBench(t)
	life := b.away(bloom.DrainOrder{Drain: true, Number: 3})
	life.w.Rest(bloom.DrainOrder{Number: 4})
	b.rt.Up()
	task := b.rt.Submit("ctx", "posted afterwards")
	b.runner.next(t).end <- success("done")
	b.until(task.ID, bloom.TaskCompleted)
	b.shows(func(w bloom.Worker) bool { return !w.Draining })
}

func TestAWorkerDoesNotEndAnOrderThatTheRuntimeGave(t *testing.T) {
	b := newBench(t)
	life := b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline })
	if _, err := b.api.DrainWorker(t.Context(), "node", true); err != nil {
		t.Fatal(err)
	}
	b.logs.await(t, "ordered to drain: no new tasks are taken until the order is lifted")
	life.w.Rest(bloom.DrainOrder{Drain: true, Number: 3})
	b.logs.await(t, "ordered to rest: no new tasks are taken until the order is lifted")
	life.w.Rest(bloom.DrainOrder{Number: 4})
	b.logs.await(t, "the order to rest was lifted")
	life.leaves() // having said all that it had to say
	b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
}

func TestTheRuntimesOwnOrderIsLeftAlone(t *testing.T) {
	b := newBench(t)
	life := b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline })
	if _, err := b.api.DrainWorker(t.Context(), "node", true); err != nil {
		t.Fatal(err)
	}
	life.leaves()
	b.start(nil)
	b.shows(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
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
