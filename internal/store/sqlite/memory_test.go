package sqlite_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestMemoryFollowsARollback leases a task in a group that has to be rolled
// back: what the writer remembers of the lease must be gone before it is
// granted again.
func TestMemoryFollowsARollback(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	ctx := t.Context()
	if _, _, err := s.RegisterWorker(ctx, bloom.WorkerSpec{Name: "w", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 2}}, "test"); err != nil {
		t.Fatal(err)
	}
	task, _, err := s.CreateTask(ctx, storetest.Plain("c"))
	if err != nil {
		t.Fatal(err)
	}
	started, held := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_ = s.Write(ctx, func(func(string, ...any) error) error {
			close(started)
			<-held
			return nil
		})
	})
	<-started // the writer is busy: what follows waits and is committed together
	var lease bloom.Lease
	queued := s.Queued()
	all.Go(func() {
		if lease, _, err = s.LeaseTask(ctx, bloom.LeaseRequest{TaskID: task.ID, Actor: "test"}); err != nil {
			t.Error(err)
		}
	})
	for s.Queued() == queued {
		runtime.Gosched()
	}
	all.Go(func() {
		broken := storetest.Plain("c")
		broken.Spec.MaxAttempts = 99
		if _, _, err := s.CreateTask(ctx, broken); err == nil {
			t.Error("what the schema forbids was taken")
		}
	})
	for s.Queued() == queued+1 {
		runtime.Gosched()
	}
	close(held)
	all.Wait()
	if lease.Epoch != 1 {
		t.Errorf("the lease is the task's number %d", lease.Epoch)
	}
	if w, leases, err := s.Worker(ctx, "w"); err != nil || w.ActiveLeases != 1 || len(leases) != 1 {
		t.Errorf("the worker holds %d, says %v: %v", len(leases), w.ActiveLeases, err)
	}
	if _, err := s.Complete(ctx, storetest.Success(task.ID, lease.ID)); err != nil {
		t.Error(err)
	}
	if err := storetest.CheckInvariants(ctx, s); err != nil {
		t.Error(err)
	}
}
