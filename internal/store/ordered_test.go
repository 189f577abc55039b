package store_test

import (
	"fmt"
	"testing"

	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestAFailureKeepsNoOrderedTaskWaiting has the transaction that ends an ordered task
// fail, alone, and then succeed.
func TestAFailureKeepsNoOrderedTaskWaiting(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{1, 2} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, s *store.Store) {
				left := failures
				store.Disturb(s, func(c *store.Changes) error {
					if len(c.Outcomes) > 0 && left > 0 {
						left--
						c.AddTask(forbidden())
					}
					return nil
				})
				register(t, s)
				first, next := storetest.Plain("context"), storetest.Plain("context")
				for _, n := range []*contract.NewTask{&first, &next} {
					n.Spec.Policy.Ordered = true
					if _, _, err := s.CreateTask(t.Context(), *n); err != nil {
						t.Fatal(err)
					}
				}
				lease, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: first.ID, WorkerID: "w"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Complete(t.Context(), storetest.Success(first.ID, lease.ID)); err != nil || left > 0 {
					t.Fatalf("%d failures are left, %v", left, err)
				}
				if failures > 1 {
					if _, err := s.Reap(t.Context(), 100); err != nil {
						t.Fatal(err)
					}
				}
				got, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 1})
				if err != nil || len(got.Leases) != 1 || got.Leases[0].Task.ID != next.ID {
					t.Errorf("claimed %+v, %v", got.Leases, err)
				}
			})
		})
	}
}
