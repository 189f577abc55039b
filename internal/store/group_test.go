package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// together calls operations so that they are committed in one transaction, in this order.
func together(s *store.Store, ops ...func()) {
	release := store.Hold(s)
	var all sync.WaitGroup
	for i, op := range ops {
		all.Go(op)
		for s.Queued() <= i {
			time.Sleep(time.Millisecond)
		}
	}
	release()
	all.Wait()
}

// forbidden returns a new task that the schema forbids.
func forbidden() *store.Task {
	task := storetest.Plain("c").Task(1)
	task.MaxAttempts = 99
	return &store.Task{Task: task, Seq: 1 << 40, Gate: contract.GateOpen}
}

// TestAFailedOperationAffectsNoOther runs operations that fail in every way in one transaction with
// operations that succeed.
func TestAFailedOperationAffectsNoOther(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		half := func(c *store.Changes) { c.AddSetting("half", "done") }
		failing := []func(c *store.Changes) error{
			func(c *store.Changes) error { half(c); return errors.New("broken") },
			func(c *store.Changes) error { half(c); return bloom.Conflict("refused too late") },
			func(c *store.Changes) error { half(c); panic("half done") },
			func(c *store.Changes) error { half(c); c.AddTask(forbidden()); return nil },
			func(*store.Changes) error { return bloom.Conflict("refused in time") },
		}
		var ops []func()
		for _, fn := range failing {
			ops = append(ops, func() {
				if err := store.Do(t.Context(), s, fn); err == nil {
					t.Error("a failure was acknowledged")
				}
			}, func() {
				if _, _, err := s.CreateTask(t.Context(), storetest.Plain("c")); err != nil {
					t.Error(err)
				}
			})
		}
		together(s, ops...)
		settings, err := s.Settings(t.Context())
		if err != nil || len(settings) != 0 {
			t.Errorf("a failed operation was partly committed: %v, %v", settings, err)
		}
		st, err := s.Stats(t.Context())
		if err != nil || st.Tasks.Total != int64(len(failing)) {
			t.Errorf("%d tasks were created: %v", st.Tasks.Total, err)
		}
	})
}

// TestOperationsInOneTransactionSeeEarlierOnes runs operations that depend on an earlier one in the
// same transaction.
func TestOperationsInOneTransactionSeeEarlierOnes(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]func(t *testing.T, s *store.Store){
		"a task is created and leased": func(t *testing.T, s *store.Store) {
			n := storetest.Plain("context")
			together(s, func() { _, _, _ = s.CreateTask(t.Context(), n) }, func() {
				if _, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: n.ID, WorkerID: "w"}); err != nil {
					t.Error(err)
				}
			})
			if events, err := s.Events(t.Context(), n.ID, 0, 0); err != nil || len(events) != 2 || events[1].Type != bloom.EventLeased {
				t.Errorf("the stream is %s, %v", storable.MustJSON(events), err)
			}
		},
		"a task is created and claimed": func(t *testing.T, s *store.Store) {
			n := storetest.Plain("context")
			together(s, func() { _, _, _ = s.CreateTask(t.Context(), n) }, func() {
				got, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 1})
				if err != nil || len(got.Leases) != 1 || got.Leases[0].Task.Prompt != n.Spec.Prompt {
					t.Errorf("claimed %+v, %v", got, err)
				}
			})
		},
		"a task is released and leased": func(t *testing.T, s *store.Store) {
			task, lease := leased(t, s, "context")
			together(s,
				func() { _, _ = s.Release(t.Context(), task, bloom.ReleaseSpec{LeaseID: lease}, "w") },
				func() { _, _, _ = s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: task, WorkerID: "w"}) })
			if is, err := s.Task(t.Context(), task); err != nil || is.Status != bloom.TaskLeased {
				t.Errorf("it is %s, %v", is.Status, err)
			}
		},
		"one task is completed by two, and claimed": func(t *testing.T, s *store.Store) {
			task, lease := leased(t, s, "context")
			outcome := storetest.Success(task, lease)
			complete := func() {
				if _, err := s.Complete(t.Context(), outcome); err != nil {
					t.Error(err)
				}
			}
			together(s, complete, func() {
				got, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Held: []string{lease}, Renew: true})
				if err != nil || len(got.Lost) != 1 || len(got.Renewed) != 0 {
					t.Errorf("claimed %+v, %v", got, err)
				}
			}, complete)
			if results, err := s.Results(t.Context(), task); err != nil || len(results) != 1 {
				t.Errorf("%d results, %v", len(results), err)
			}
		},
		"ordered tasks end and begin": func(t *testing.T, s *store.Store) {
			var tasks []contract.NewTask
			for range 40 {
				n := storetest.Plain("in order")
				n.Spec.Policy.Ordered = true
				tasks = append(tasks, n)
			}
			var ops []func()
			for i, n := range tasks {
				ops = append(ops, func() { _, _, _ = s.CreateTask(t.Context(), n) })
				if i%2 == 0 {
					ops = append(ops, func() {
						if _, err := s.Cancel(t.Context(), n.ID, "test"); err != nil {
							t.Error(err)
						}
					})
				}
			}
			together(s, ops...)
			ops = ops[:0]
			for _, n := range tasks[:38] { // all but the last one
				ops = append(ops, func() { _, _ = s.Cancel(t.Context(), n.ID, "test") })
			}
			together(s, ops...)
			got, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 9})
			if err != nil || len(got.Leases) != 1 || got.Leases[0].Task.ID != tasks[39].ID {
				t.Errorf("claimed %+v, %v", got, err)
			}
		},
		"two tasks compete for one slot": func(t *testing.T, s *store.Store) {
			if _, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "small", InstanceID: "small-1", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}, "test"); err != nil {
				t.Fatal(err)
			}
			ids := make([]string, 2)
			for i := range ids {
				n := storetest.Plain(fmt.Sprint("context ", i))
				if _, _, err := s.CreateTask(t.Context(), n); err != nil {
					t.Fatal(err)
				}
				ids[i] = n.ID
			}
			together(s, func() { _, _, _ = s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: ids[0], WorkerID: "small"}) }, func() {
				if _, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: ids[1], WorkerID: "small"}); !errors.Is(err, bloom.ErrNoWorker) {
					t.Errorf("a second lease for one slot: %v", err)
				}
			})
		},
		"a claim reads a worker's leases, and a lease needs their number": func(t *testing.T, s *store.Store) {
			task, _ := leased(t, s, "context")
			n := storetest.Plain("another context")
			together(s, func() {
				if _, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1"}); err != nil {
					t.Error(err)
				}
			}, func() { _, _, _ = s.CreateTask(t.Context(), n) }, func() {
				_, w, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: n.ID, WorkerID: "w"})
				if err != nil || w.ActiveLeases != 2 {
					t.Errorf("the worker has %d leases after that of %s, %v", w.ActiveLeases, task, err)
				}
			})
		},
		"two tasks have the same idempotency key": func(t *testing.T, s *store.Store) {
			ids := make([]string, 2)
			var ops []func()
			for i := range ids {
				n := storetest.Plain("context")
				n.IdempotencyScope, n.Spec.IdempotencyKey = "scope", "key"
				ops = append(ops, func() {
					task, replayed, err := s.CreateTask(t.Context(), n)
					if err != nil || replayed != (i == 1) {
						t.Errorf("the number %d: replayed %v, %v", i, replayed, err)
					}
					ids[i] = task.ID
				})
			}
			together(s, ops...)
			if ids[0] != ids[1] {
				t.Errorf("two tasks for one key: %v", ids)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, s *store.Store) {
				register(t, s)
				meet(t, s)
			})
		})
	}
}
