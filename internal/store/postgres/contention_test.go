package postgres_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestAStepIsTwoRoundTrips counts the server's responses: two for each call. Other work of the store
// only adds to them: a connection on which statements are prepared again, or a periodic read. So one
// task without any is looked for.
func TestAStepIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	cut, url := startCutter(t, migrated.Start(t))
	s := open(t, url, nil)
	register(t, s, "w", 32)
	lifecycle := func() {
		n := storetest.Plain("context")
		if _, _, err := s.CreateTask(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		l, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: n.ID, WorkerID: "w"})
		if err == nil {
			_, err = s.Heartbeat(t.Context(), n.ID, l.ID, nil)
		}
		if err == nil {
			_, err = s.AppendEvents(t.Context(), n.ID, l.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text"}})
		}
		if err == nil {
			_, err = s.Complete(t.Context(), storetest.Success(n.ID, l.ID))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const steps = 5
	lifecycle() // prepares the statements
	var trips []int64
	for len(trips) < 200 {
		before := cut.answers.Load()
		lifecycle()
		n := cut.answers.Load() - before
		if trips = append(trips, n); n < 2*steps {
			t.Fatalf("%d steps took %d round trips", steps, n)
		} else if n < 3*steps {
			return
		}
	}
	t.Errorf("%d steps took at least %d round trips", steps, slices.Min(trips))
}

// TestWhatAnotherReplicaHasChanged lets another replica change rows that a replica has just written.
func TestWhatAnotherReplicaHasChanged(t *testing.T) {
	t.Parallel()
	for name, differ := range map[string]func(*testing.T, *replicas){
		"a task is cancelled": func(t *testing.T, r *replicas) {
			task, l := r.leased("w")
			if _, err := r.other.Cancel(t.Context(), task, "test"); err != nil {
				t.Fatal(err)
			}
			if heartbeat, err := r.own.Heartbeat(t.Context(), task, l, nil); err != nil || !heartbeat.CancelRequested {
				t.Errorf("the heartbeat says %+v, %v", heartbeat, err)
			}
		},
		"a task is leased": func(t *testing.T, r *replicas) {
			task := r.created("context")
			r.lease(r.other, task, "w")
			if _, _, err := r.own.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: task, WorkerID: "w"}); bloom.KindOf(err) != bloom.KindConflict {
				t.Errorf("it is leased twice: %v", err)
			}
		},
		"a task has ended": func(t *testing.T, r *replicas) {
			task, l := r.leased("w")
			if _, err := r.other.Complete(t.Context(), storetest.Success(task, l)); err != nil {
				t.Fatal(err)
			}
			if _, err := r.own.Heartbeat(t.Context(), task, l, nil); !errors.Is(err, bloom.ErrLeaseLost) {
				t.Errorf("a heartbeat says %v", err)
			}
			again := storetest.Success(task, l)
			if done, err := r.own.Complete(t.Context(), again); err != nil || !done.Replayed {
				t.Errorf("the same outcome again: %+v, %v", done, err)
			}
		},
		"events were appended": func(t *testing.T, r *replicas) {
			task, l := r.leased("w")
			events := []bloom.WorkerEvent{{Seq: 1, Type: "text"}, {Seq: 2, Type: "text"}}
			first, err := r.other.AppendEvents(t.Context(), task, l, events)
			if err != nil {
				t.Fatal(err)
			}
			if last, err := r.own.AppendEvents(t.Context(), task, l, events); err != nil || last != first {
				t.Errorf("the stream ends at %d, %v; want %d", last, err, first)
			}
		},
		"a worker is full": func(t *testing.T, r *replicas) {
			mine, _ := r.leased("w")
			r.lease(r.other, r.created("context"), "w")
			next := r.created("context")
			if _, _, err := r.own.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: next, WorkerID: "w"}); !errors.Is(err, bloom.ErrNoWorker) {
				t.Errorf("a third lease of two, beside %s: %v", mine, err)
			}
		},
		"a worker has room again": func(t *testing.T, r *replicas) {
			first, l := r.leased("w")
			r.leased("w")
			if _, err := r.other.Complete(t.Context(), storetest.Success(first, l)); err != nil {
				t.Fatal(err)
			}
			_, worker, err := r.own.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: r.created("context"), WorkerID: "w"})
			if err != nil || worker.ActiveLeases != 2 {
				t.Errorf("the worker holds %d: %v", worker.ActiveLeases, err)
			}
		},
		"a worker is drained": func(t *testing.T, r *replicas) {
			r.leased("w")
			if _, err := r.other.DrainWorker(t.Context(), "w", true, "test"); err != nil {
				t.Fatal(err)
			}
			next := r.created("context")
			if _, _, err := r.own.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: next, WorkerID: "w"}); !errors.Is(err, bloom.ErrNoWorker) {
				t.Errorf("it gets work: %v", err)
			}
		},
		"a context has a holder": func(t *testing.T, r *replicas) {
			register(t, r.own, "v", 32) // has the most free slots
			r.lease(r.own, r.created("another"), "")
			r.lease(r.other, r.created("held"), "w")
			if _, worker, err := r.own.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: r.created("held")}); err != nil || worker.ID != "w" {
				t.Errorf("the task goes to %q, %v", worker.ID, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migrated.Start(t)
			r := &replicas{t: t, own: open(t, url, nil), other: open(t, url, nil)}
			register(t, r.own, "w", 2)
			task, l := r.leased("w") // the worker was just in contact
			if _, err := r.own.Complete(t.Context(), storetest.Success(task, l)); err != nil {
				t.Fatal(err)
			}
			differ(t, r)
			if err := storetest.CheckInvariants(t.Context(), r.own); err != nil {
				t.Error(err)
			}
		})
	}
}

// replicas are two stores on one database.
type replicas struct {
	t          *testing.T
	own, other *postgres.Store
}

func (r *replicas) created(contextID string) string {
	r.t.Helper()
	n := storetest.Plain(contextID)
	if _, _, err := r.own.CreateTask(r.t.Context(), n); err != nil {
		r.t.Fatal(err)
	}
	return n.ID
}

func (r *replicas) lease(s *postgres.Store, task, worker string) string {
	r.t.Helper()
	l, _, err := s.LeaseTask(r.t.Context(), contract.LeaseRequest{TaskID: task, WorkerID: worker})
	if err != nil {
		r.t.Fatal(err)
	}
	return l.ID
}

// leased creates a task and leases it to a worker.
func (r *replicas) leased(worker string) (task, lease string) {
	r.t.Helper()
	task = r.created("context")
	lease = r.lease(r.own, task, worker)
	if _, err := r.own.Heartbeat(r.t.Context(), task, lease, nil); err != nil {
		r.t.Fatal(err)
	}
	return task, lease
}

// TestASlotIsLeasedOnce leases the only slot of a worker to several tasks at once.
func TestASlotIsLeasedOnce(t *testing.T) {
	t.Parallel()
	for name, crowd := range map[string]func(r *replicas, tasks []string) []func(){
		"by name and by claim": func(r *replicas, tasks []string) []func() {
			all := []func(){
				func() { _, _, _ = r.own.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: tasks[0], WorkerID: "w"}) },
				func() {
					_, _ = r.own.Claim(t.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 1})
				},
			}
			for range 4 { // so that the two may be in one transaction
				all = append(all, func() { _ = r.own.AppendAudit(t.Context(), bloom.Audit{Action: "x", EntityID: "x"}) })
			}
			return all
		},
		"by two replicas": func(r *replicas, tasks []string) (all []func()) {
			for i, s := range []*postgres.Store{r.own, r.other} {
				all = append(all, func() { _, _, _ = s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: tasks[i], WorkerID: "w"}) })
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migrated.Start(t)
			r := &replicas{t: t, own: open(t, url, nil), other: open(t, url, nil)}
			register(t, r.own, "w", 1)
			for range 100 {
				r.compete(crowd)
			}
		})
	}
}

func (r *replicas) compete(crowd func(*replicas, []string) []func()) {
	r.t.Helper()
	ctx := r.t.Context()
	n := storetest.Plain("context")
	if _, _, err := r.other.CreateTask(ctx, n); err != nil {
		r.t.Fatal(err)
	}
	tasks := []string{r.created("context"), n.ID}
	var all sync.WaitGroup
	for _, one := range crowd(r, tasks) {
		all.Go(one)
	}
	all.Wait()
	_, held, err := r.own.Worker(ctx, "w")
	if err != nil || len(held) != 1 {
		r.t.Fatalf("%d leases for one slot, %v", len(held), err)
	}
	by := r.own
	if held[0].TaskID == n.ID {
		by = r.other
	}
	if _, err := by.Complete(ctx, storetest.Success(held[0].TaskID, held[0].ID)); err != nil {
		r.t.Fatal(err)
	}
	for _, id := range tasks {
		if id != held[0].TaskID {
			if _, err := by.Cancel(ctx, id, "test"); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}
