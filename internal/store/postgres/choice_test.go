package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestLeasingAmongManyWorkers leases tasks to whichever of many workers is chosen.
func TestLeasingAmongManyWorkers(t *testing.T) {
	t.Parallel()
	s := open(t, migrated.Start(t), nil)
	const many = 100
	for i := range many {
		register(t, s, fmt.Sprintf("small-%03d", i), 1)
	}
	register(t, s, "large", 3)
	register(t, s, "special", 2, "gpu")

	if got := leaseFor(t, s, "c1"); got != "large" {
		t.Errorf("leased to %q, not to the worker with most room", got)
	}
	if got := leaseFor(t, s, "c1"); got != "large" {
		t.Errorf("leased to %q, not to the worker that holds the context", got)
	}
	for i := range 2 {
		if got := leaseFor(t, s, fmt.Sprint("gpu", i), "gpu"); got != "special" {
			t.Errorf("leased to %q, which lacks the label", got)
		}
	}
	if _, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: post(t, s, "gpu2", "gpu")}); !errors.Is(err, bloom.ErrNoWorker) {
		t.Errorf("the only worker with the label is full: %v", err)
	}
	// A worker that has just registered is found, although it was missing a moment ago.
	register(t, s, "late", 1, "tpu")
	if got := leaseFor(t, s, "late", "tpu"); got != "late" {
		t.Errorf("leased to %q", got)
	}

	// All remaining slots are used, and no worker gets more tasks than slots.
	held := map[string]int{}
	for i := range many + 1 {
		held[leaseFor(t, s, fmt.Sprint("rest", i))]++
	}
	for name, n := range held {
		if n > 1 {
			t.Errorf("%s got %d tasks", name, n)
		}
	}
	if _, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: post(t, s, "none")}); !errors.Is(err, bloom.ErrNoWorker) {
		t.Errorf("nobody has room: %v", err)
	}
}

func post(t *testing.T, s contract.Store, contextID string, labels ...string) string {
	t.Helper()
	n := storetest.Plain(contextID)
	n.Spec.Labels = labels
	if _, _, err := s.CreateTask(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return n.ID
}

func leaseFor(t *testing.T, s contract.Store, contextID string, labels ...string) (worker string) {
	t.Helper()
	l, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: post(t, s, contextID, labels...)})
	if err != nil {
		t.Fatalf("lease for %s: %v", contextID, err)
	}
	return l.WorkerID
}
