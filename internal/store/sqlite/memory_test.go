package sqlite_test

import (
	"fmt"
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

// TestManySetsOfLabels hides a worker's task behind more sets of labels than
// one claim looks at.
func TestManySetsOfLabels(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	ctx := t.Context()
	for _, name := range []string{"few", "many"} {
		labels := []string{name}
		for i := range 8 {
			if name == "many" {
				labels = append(labels, fmt.Sprint("other-", i))
			}
		}
		if _, _, err := s.RegisterWorker(ctx, bloom.WorkerSpec{Name: name, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 2, Labels: labels}}, "test"); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	create := func(labels ...string) {
		n := storetest.Plain("c")
		n.Spec.Labels = labels
		if _, _, err := s.CreateTask(ctx, n); err != nil {
			t.Error(err)
		}
	}
	for i := range 600 {
		all.Go(func() { create(fmt.Sprintf("a-%03d", i)) })
	}
	create("few")
	create("many", "other-3")
	all.Wait()
	for name, claims := range map[string]int{"few": 1, "many": 2} {
		got := 0
		for range claims {
			res, err := s.Claim(ctx, bloom.ClaimRequest{WorkerID: name, Max: 2})
			if err != nil {
				t.Fatal(err)
			}
			got += len(res.Leases)
		}
		if got != 1 {
			t.Errorf("%s got %d tasks in %d claims, want its one", name, got, claims)
		}
	}
}
