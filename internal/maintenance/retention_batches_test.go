package maintenance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// endless is a store in which every batch leaves more.
type endless struct {
	contract.RetentionStore
	batches chan int64
	each    func()
	fail    error
}

func (e *endless) RemoveTasks(_ context.Context, r contract.RemoveRequest) (contract.Removed, error) {
	select {
	case e.batches <- r.After:
	default:
	}
	if e.each != nil {
		e.each()
	}
	return contract.Removed{Tasks: 1, Next: r.After + 1, More: true}, e.fail
}

func (e *endless) RemovedContent(context.Context, int64, int) ([]contract.RemovedContent, error) {
	return nil, nil
}

func TestARunIsBoundedAndTheNextGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	c := newClock()
	n := int64(0)
	e := &endless{batches: make(chan int64, 100), each: func() {
		if n++; n%3 == 0 {
			c.advance(6 * time.Minute)
		}
	}}
	loop := maintenance.NewRetention(maintenance.RetentionConfig{Store: e, Clock: c, Keep: contract.Keep{Tasks: month}, Busy: 5 * time.Minute})
	for _, begin := range []int64{0, 3} {
		if res := runOnce(t, loop); res.Changed != 3 {
			t.Fatalf("a run of %+v", res)
		}
		if got := <-e.batches; got != begin {
			t.Errorf("a run began at %d, want %d", got, begin)
		}
		<-e.batches
		<-e.batches
	}
}

func TestStoppingEndsTheRemovalBetweenTwoBatches(t *testing.T) {
	t.Parallel()
	e := &endless{batches: make(chan int64)}
	loop := maintenance.NewRetention(maintenance.RetentionConfig{Store: e, Keep: contract.Keep{Tasks: month}})
	loop.Start()
	for range 3 {
		<-e.batches
	}
	loop.Stop() // hangs if a run continues
}

func TestAFailingStoreIsReported(t *testing.T) {
	t.Parallel()
	e := &endless{fail: bloom.ErrUnavailable}
	if _, err := maintenance.NewRetention(maintenance.RetentionConfig{Store: e, Keep: contract.Keep{Tasks: month}}).RunOnce(t.Context()); !errors.Is(err, bloom.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestOneReplicaRemovesAtATime(t *testing.T) {
	t.Parallel()
	e := &endless{batches: make(chan int64, 1)}
	loop := maintenance.NewRetention(maintenance.RetentionConfig{Store: e, Keep: contract.Keep{Tasks: month}}).OnlyLeader(func(context.Context) (bool, error) { return false, nil })
	if res := runOnce(t, loop); res.Changed != 0 || len(e.batches) != 0 {
		t.Errorf("it removed while another one does: %+v", res)
	}
}
