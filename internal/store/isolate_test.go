package store_test

import (
	"errors"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// A claim that fails because of the worker's own row, or of what every lease writes, must not keep
// the tasks from other workers.
func TestAWorkerThatCannotBeGivenATaskKeepsNoneFromOthers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		t.Helper()
		var tasks []string
		for range 3 {
			n := storetest.Plain("context")
			if _, _, err := s.CreateTask(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			tasks = append(tasks, n.ID)
		}
		for _, name := range []string{"bad", "w"} {
			if _, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: name, InstanceID: name, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 3}}, "w"); err != nil {
				t.Fatal(err)
			}
		}
		store.Disturb(s, func(c *store.Changes) error {
			for _, l := range c.Leases(true) {
				if l.WorkerID == "bad" {
					return errors.New("a bad row")
				}
			}
			return nil
		})
		claim := func(name string, want int) {
			t.Helper()
			r, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: name, InstanceID: name, Max: 3, TTLSec: 60})
			if err != nil || len(r.Leases) != want {
				t.Errorf("%s got %d tasks, want %d: %v", name, len(r.Leases), want, err)
			}
		}
		claim("bad", 0)
		if place, err := s.QueuePlace(t.Context(), tasks[0]); err != nil || place.Skipped == 0 {
			t.Errorf("nothing says that the task is skipped: %+v, %v", place, err)
		}
		claim("w", 3)
	})
}
