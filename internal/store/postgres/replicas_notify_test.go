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
	heard := make(chan bloom.Change, 100)
	defer b.Subscribe(func(changes []bloom.Change) {
		for _, c := range changes {
			heard <- c
		}
	})()
	// They know of each other from the start: not even the first is left untold.
	n := storetest.Plain("context")
	n.Spec.Labels = []string{"gpu"}
	if _, _, err := a.CreateTask(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	select {
	case c := <-heard:
		if c.Kind != bloom.ChangeTask || c.TaskID != n.ID || c.TaskStatus != bloom.TaskQueued || len(c.Labels) != 1 || c.Labels[0] != "gpu" || c.RunAt == 0 {
			t.Errorf("heard %+v", c)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the other replica hears nothing")
	}
}
