package postgres_test

import (
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

func TestATaskOfOneReplicaWakesTheOther(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	a, b := open(t, url, nil), open(t, url, nil)
	recorded := make(chan bloom.Change, 100)
	defer b.Subscribe(func(changes []bloom.Change) {
		for _, c := range changes {
			recorded <- c
		}
	})()
	// Both listen from the start: even the first change is notified.
	n := storetest.Plain("context")
	n.Spec.Labels = []string{"gpu"}
	if _, _, err := a.CreateTask(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	select {
	case c := <-recorded:
		if c.Kind != bloom.ChangeTask || c.TaskID != n.ID || c.TaskStatus != bloom.TaskQueued || len(c.Labels) != 1 || c.Labels[0] != "gpu" || c.RunAt == 0 {
			t.Errorf("received %+v", c)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the other replica received nothing")
	}
}
