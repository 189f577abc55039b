package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestAWorkerDrainedAtTheControlPlaneTakesNothingAndFinishesWhatItHas(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	first := h.rt.Submit("ctx", "begun before")
	run := h.runner.next(t)

	l.w.FollowControlPlane(true)
	l.w.FollowControlPlane(true)
	h.logs.await(t, "drained at the control plane: no new tasks are taken until it undrains this worker")
	h.untilShown(func(w bloom.Worker) bool { return w.Draining && w.Capabilities.ClaudeCLI })
	second := h.rt.Submit("other", "posted meanwhile")
	if _, _, err := h.rt.Store.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: second.ID}); !errors.Is(err, bloom.ErrNoWorker) {
		t.Fatalf("it was picked for a task: %v", err)
	}
	run.end <- success("done")
	h.until(first.ID, bloom.TaskCompleted)
	if !l.w.Status().Draining {
		t.Error("its status does not say that it takes nothing")
	}

	l.w.FollowControlPlane(false)
	h.logs.await(t, "undrained at the control plane")
	h.runner.next(t).end <- success("done too")
	if done := h.until(second.ID, bloom.TaskCompleted); done.Attempts != 1 {
		t.Errorf("the task took %d attempts", done.Attempts)
	}
	h.untilShown(func(w bloom.Worker) bool { return !w.Draining })
	l.w.FollowControlPlane(true)
	h.untilShown(func(w bloom.Worker) bool { return w.Draining })
}

func (h *harness) untilShown(want func(bloom.Worker) bool) {
	h.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		w, _, err := h.rt.Store.Worker(h.Context(), "node")
		if err == nil && want(w) {
			return
		}
		if time.Now().After(deadline) {
			h.Fatalf("the runtime shows it as %+v, %v", w, err)
		}
	}
}

// stopCleanly stops the worker and waits for it.
func (l *workerRun) stopCleanly() {
	l.h.Helper()
	l.cancel()
	if err := l.result(); err != nil {
		l.h.Fatal(err)
	}
}

// untilControlDrained waits until the runtime knows that the control plane drains so many workers.
func (h *harness) untilControlDrained(want int) {
	h.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		names, err := h.rt.Store.ControlDrained(h.Context())
		if err == nil && len(names) == want {
			return
		}
		if time.Now().After(deadline) {
			h.Fatalf("the runtime knows %v, %v", names, err)
		}
	}
}

// runsATask waits until the worker has completed a task.
func (h *harness) runsATask() {
	h.Helper()
	task := h.rt.Submit("ctx", "posted afterwards")
	h.runner.next(h.T).end <- success("done")
	h.until(task.ID, bloom.TaskCompleted)
}

func TestADrainedWorkerIsUndrainedWhereItWasDrained(t *testing.T) {
	h := newHarness(t)
	l := h.start(func(c *worker.Config) { c.PollWait = time.Minute }) // it is not what ends the waiting
	here := func(drain, want bool) {
		t.Helper()
		if w, err := h.api.DrainWorker(t.Context(), "node", drain); err != nil || w.Draining != want {
			t.Fatalf("%+v, %v, want draining %v", w, err, want)
		}
	}
	h.untilShown(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline })
	here(true, true)
	h.logs.await(t, "drained at the server: no new tasks are taken until the worker is undrained")
	l.w.FollowControlPlane(true)
	h.untilControlDrained(1)
	here(false, true)
	here(true, true)
	l.w.FollowControlPlane(false)
	h.untilControlDrained(0)
	l.stopCleanly()
	l = h.start(nil, false)
	h.untilShown(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
	here(false, false)
	h.runsATask()
	l.w.FollowControlPlane(true)
	h.untilShown(func(w bloom.Worker) bool { return w.Draining })
	here(false, true)
	l.w.FollowControlPlane(false)
	h.untilShown(func(w bloom.Worker) bool { return !w.Draining })
	h.runsATask()
}

func TestAfterARestartTheControlPlaneSendsItsDrainAgain(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil, true)
	h.untilShown(func(w bloom.Worker) bool { return w.Draining })
	l.stopCleanly()
	l = h.start(nil) // without a response of the control plane it stays drained
	h.untilShown(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
	l.stopCleanly()
	l = h.start(nil, false) // undrained while it was down
	h.runsATask()
	h.untilShown(func(w bloom.Worker) bool { return !w.Draining })
	l.stopCleanly()
	h.start(nil, true) // drained while it was down
	h.untilShown(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
}

func TestADrainReceivedWhileTheRuntimeWasDownIsReported(t *testing.T) {
	h := newHarness(t)
	h.rt.Down()
	l := h.start(nil, true)
	h.logs.await(h.T, "cannot claim tasks; running tasks continue while their leases last")
	h.rt.Up()
	h.untilShown(func(w bloom.Worker) bool { return w.Draining && w.Status == bloom.WorkerOnline })
	h.rt.Down()
	l.w.FollowControlPlane(false)
	h.rt.Up()
	h.runsATask()
	h.untilShown(func(w bloom.Worker) bool { return !w.Draining })
}

func TestAWorkerThatStopsInOrderIsOfflineAtOnce(t *testing.T) {
	h := newHarness(t)
	left := make(chan struct{})
	l := h.start(func(c *worker.Config) { c.OnStopped = func() { close(left) } })
	task := h.rt.Submit("ctx", "a task")
	h.runner.next(t).end <- success("done")
	h.until(task.ID, bloom.TaskCompleted)
	l.stopCleanly()
	<-left
	w, _, err := h.rt.Store.Worker(t.Context(), "node")
	if err != nil || w.Status != bloom.WorkerOffline || !w.Capabilities.ClaudeCLI || w.Draining {
		t.Errorf("the runtime shows %+v, %v", w, err)
	}
	// With a new state folder it is another process, which need not wait for the name.
	_, err = h.api.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "node", InstanceID: "another", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}, Status: bloom.WorkerOffline})
	if err != nil {
		t.Errorf("another process with the name: %v", err)
	}
	h.start(nil)
	h.untilShown(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline })
}
