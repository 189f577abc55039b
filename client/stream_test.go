package client_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/storable"
)

func TestTheStreamIsFollowedThroughOutagesToItsEnd(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	c := rt.Client().WithRetry(quick)
	task := rt.Submit("c", "p")
	if _, err := c.RegisterWorker(ctx, bloom.WorkerSpec{Name: "node", Capabilities: bloom.Capabilities{ClaudeCLI: true}}); err != nil {
		t.Fatal(err)
	}
	lease := must[client.Granted](t)(c.Lease(ctx, task.ID, client.LeaseOptions{})).Lease

	events := make(chan bloom.Event)
	var reconnects atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(events)
		for e, err := range c.FollowEvents(ctx, task.ID, client.FollowOptions{OnReconnect: func(error, time.Duration) { reconnects.Add(1) }}) {
			if err != nil {
				t.Errorf("follow: %v", err)
				return
			}
			events <- e
		}
	})
	add := func(n int64) {
		err := c.AppendEvents(ctx, task.ID, lease.ID, []bloom.WorkerEvent{{Seq: n, Type: "text", At: 1, Data: storable.MustJSON(n)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	var types []string
	var last int64
	next := func() {
		e, open := <-events
		if !open || e.Seq != last+1 {
			t.Fatalf("event %+v after %d, open %v", e, last, open)
		}
		last = e.Seq
		types = append(types, e.Type)
	}
	next()
	next()
	add(1)
	next()
	rt.Down()
	rt.Up()
	add(2)
	next()
	empty := ""
	must[bloom.Completed](t)(c.Complete(ctx, task.ID, bloom.Completion{LeaseID: lease.ID, Status: bloom.OutcomeSuccess, Output: &empty}))
	next()
	if _, open := <-events; open {
		t.Fatal("the stream goes on after its end")
	}
	wg.Wait()
	if diff := cmp.Diff([]string{"created", "leased", "text", "text", "completed"}, types); diff != "" {
		t.Fatal(diff)
	}
	if reconnects.Load() == 0 {
		t.Fatal("no reconnection was reported")
	}
	// The stream of a finished task ends immediately, from its beginning and from its end.
	for _, after := range []int64{0, last} {
		n := int64(0)
		for _, err := range c.FollowEvents(ctx, task.ID, client.FollowOptions{After: after}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != last-after {
			t.Fatalf("after %d: %d events", after, n)
		}
	}
}

func TestFollowingAMissingTaskEnds(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	for _, err := range rt.Client().FollowEvents(ctx, "nothing", client.FollowOptions{}) {
		if !errors.Is(err, bloom.ErrTaskNotFound) {
			t.Fatalf("%v", err)
		}
	}
}

func TestChangesAreStreamedUntilTheCallerStops(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	c := rt.Client()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ { // changes before the stream was open are not in it
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				_, _ = c.Submit(ctx, bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"})
			}
		}
	})
	for change, err := range c.Changes(ctx, client.FollowOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if change.Kind == bloom.ChangeTask {
			break
		}
	}
	close(stop)
	wg.Wait()
}
