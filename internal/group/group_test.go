package group_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/group"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// send adds operations to a queue that has room for them.
func send(t *testing.T, q *group.Queue[int], ops ...int) {
	t.Helper()
	for _, op := range ops {
		if err := q.Send(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneTakesWhatWaits(t *testing.T) {
	t.Parallel()
	q := group.NewQueue[int](8)
	send(t, q, 1, 2, 3, 4, 5)
	if q.Len() != 5 {
		t.Errorf("%d wait", q.Len())
	}
	room := make([]int, 0, 3)
	for _, want := range [][]int{{1, 2, 3}, {4, 5}} {
		if got, ok := q.Take(room); !ok || !slices.Equal(got, want) {
			t.Errorf("took %v, %t; want %v", got, ok, want)
		}
	}
}

// The committer itself sends operations again, so a stop that waits for it must not block it.
func TestAStopDoesNotWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := group.NewQueue[int](1)
		send(t, q, 1)
		waiting, again, stopped := make(chan error, 1), make(chan error, 1), make(chan struct{})
		go func() { waiting <- q.Send(t.Context(), 2) }()
		synctest.Wait()
		go func() {
			q.Stop()
			close(stopped)
		}()
		synctest.Wait()
		go func() { again <- q.TrySend(1) }()
		synctest.Wait()
		for what, got := range map[string]chan error{"a caller that waits for room": waiting, "the committer": again} {
			select {
			case err := <-got:
				if !errors.Is(err, bloom.ErrUnavailable) {
					t.Errorf("%s gets %v", what, err)
				}
			default:
				t.Fatalf("%s waits while the queue is being stopped", what)
			}
		}
		<-stopped
	})
}

func TestAcceptedOperationsRunAfterTheStop(t *testing.T) {
	t.Parallel()
	q := group.NewQueue[int](8)
	send(t, q, 1, 2)
	q.Stop()
	q.Stop()
	if err := q.Send(t.Context(), 3); !errors.Is(err, bloom.ErrUnavailable) {
		t.Errorf("sent after the stop: %v", err)
	}
	room := make([]int, 0, 1)
	for _, want := range []int{1, 2} {
		if got, ok := q.Take(room); !ok || !slices.Equal(got, []int{want}) {
			t.Errorf("took %v, %t; want %d", got, ok, want)
		}
	}
	if got, ok := q.Take(room); ok || len(got) > 0 {
		t.Errorf("took %v of a queue that is over", got)
	}
}

func TestWaitingForRoomEndsWithTheContext(t *testing.T) {
	t.Parallel()
	q := group.NewQueue[int](1)
	send(t, q, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Send(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if got, _ := q.Take(make([]int, 0, 2)); !slices.Equal(got, []int{1}) {
		t.Errorf("took %v", got)
	}
}

func TestEveryAcceptedOperationIsTakenOnceWhileTheQueueStops(t *testing.T) {
	t.Parallel()
	q := group.NewQueue[int](2)
	var callers sync.WaitGroup
	accepted := make([]bool, 200)
	started := make(chan struct{}, len(accepted))
	for i := range accepted {
		callers.Go(func() {
			started <- struct{}{}
			accepted[i] = q.Send(t.Context(), i) == nil
		})
	}
	taken := make([]int, len(accepted))
	done := make(chan struct{})
	go func() {
		defer close(done)
		room := make([]int, 0, 4)
		for ops, ok := q.Take(room); ok; ops, ok = q.Take(room) {
			for _, op := range ops {
				taken[op]++
			}
		}
	}()
	for range len(accepted) / 2 {
		<-started
	}
	q.Stop()
	callers.Wait()
	<-done
	for i := range accepted {
		if (taken[i] == 1) != accepted[i] || taken[i] > 1 {
			t.Errorf("operation %d: accepted %t, taken %d times", i, accepted[i], taken[i])
		}
	}
}

func TestServingGoesOnToTheEndOfTheQueue(t *testing.T) {
	t.Parallel()
	q := group.NewQueue[int](8)
	send(t, q, 1, 2, 3, 4, 5)
	q.Stop()
	var served [][]int
	q.Serve(2, 0, func(ops []int) int { served = append(served, slices.Clone(ops)); return 0 })
	if !slices.EqualFunc(served, [][]int{{1, 2}, {3, 4}, {5}}, slices.Equal[[]int]) {
		t.Errorf("served %v", served)
	}
}

// TestCallersWhoAskAgainShareACommit: each calls again a moment after its response, when the first
// of them is already waiting.
func TestCallersWhoAskAgainShareACommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes, least time.Duration
		all          bool // share a group once they have met
	}{
		"a slow commit is worth waiting for":  {20 * time.Millisecond, 0, true},
		"a quick one is not":                  {time.Millisecond, 0, false},
		"but for as long as it is said to be": {time.Millisecond, 2 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := group.NewQueue[chan bool](8)
				for i := range 8 {
					go func() {
						answered := make(chan bool)
						for again := true; again; again = <-answered {
							time.Sleep(time.Duration(i) * 200 * time.Microsecond)
							if q.Send(t.Context(), answered) != nil {
								return // stopped
							}
						}
					}()
				}
				var sizes []int
				q.Serve(8, c.least, func(callers []chan bool) int {
					time.Sleep(c.takes)
					sizes = append(sizes, len(callers))
					n := len(callers) + q.Len()
					if len(sizes) == 20 {
						q.Stop()
					}
					for _, answered := range callers {
						answered <- len(sizes) < 20
					}
					return n
				})
				if all := slices.Min(sizes[10:20]) == 8; all != c.all {
					t.Errorf("groups of %v", sizes)
				}
			})
		})
	}
}

func TestQueueWaitsEnd(t *testing.T) {
	t.Parallel()
	over := make(chan time.Time, 1)
	over <- time.Time{}
	stopped := group.NewQueue[int](1)
	stopped.Stop()
	for name, c := range map[string]struct {
		q     *group.Queue[int]
		n     int
		until <-chan time.Time
		want  []int
	}{
		"at the number wanted":     {group.NewQueue[int](4), 3, nil, []int{1, 2, 3}},
		"at the group's capacity":  {group.NewQueue[int](4), 9, nil, []int{1, 2, 3, 4}},
		"when the moment is over":  {group.NewQueue[int](4), 9, over, []int{1}},
		"at once, when all are in": {group.NewQueue[int](4), 1, nil, []int{1}},
		"when the queue has ended": {stopped, 9, nil, []int{1}},
	} {
		if c.until == nil && c.q != stopped {
			send(t, c.q, 2, 3, 4)
		}
		if got := c.q.Linger(append(make([]int, 0, 4), 1), c.n, c.until); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
