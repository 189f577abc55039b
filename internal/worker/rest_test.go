package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

func TestAWorkerThatRestsTakesNothingAndFinishesWhatItHas(t *testing.T) {
	b := newBench(t)
	life := b.start(nil)
	first := b.rt.Submit("ctx", "begun before")
	run := b.runner.next(t)

	life.w.Rest(true)
	life.w.Rest(true)
	b.logs.await(t, "ordered to rest: no new tasks are taken until the order is lifted")
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		w, _, err := b.rt.Store.Worker(t.Context(), "node")
		if err == nil && !w.Capabilities.ClaudeCLI {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the runtime never heard of it: %v", err)
		}
	}
	second := b.rt.Submit("other", "posted meanwhile")
	if _, _, err := b.rt.Store.LeaseTask(t.Context(), bloom.LeaseRequest{TaskID: second.ID}); !errors.Is(err, bloom.ErrNoWorker) {
		t.Fatalf("it was picked for a task: %v", err)
	}
	run.end <- success("done")
	b.until(first.ID, bloom.TaskCompleted)
	if !life.w.Status().Draining {
		t.Error("its status does not say that it takes nothing")
	}

	life.w.Rest(false)
	b.runner.next(t).end <- success("done too")
	if done := b.until(second.ID, bloom.TaskCompleted); done.Attempts != 1 {
		t.Errorf("the task took %d attempts", done.Attempts)
	}
}
