// Package group is how many callers share one transaction: a queue of operations
// from which whoever commits takes all that wait, the callers' wait for the
// outcome, and the feed of what was committed. It knows no database.
package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Op is one caller's operation on X, what a transaction shows of itself.
type Op[X any] struct {
	// Err is how the operation went, set before Finish.
	Err error

	run  func(X) error
	done chan struct{}
}

// NewOp is an operation that calls run: more than once when a transaction in which
// it was had to be undone.
func NewOp[X any](run func(X) error) *Op[X] {
	return &Op[X]{run: run, done: make(chan struct{})}
}

// Run runs the operation once. A panic in it is that operation's failure alone.
func (o *Op[X]) Run(x X) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a write: %v", p)
		}
	}()
	return o.run(x)
}

// Finish lets the caller have Err. It is called once, after the commit.
func (o *Op[X]) Finish() { close(o.done) }

// Wait is how the operation went. A caller that stops waiting because ctx has
// ended leaves its operation to its fate: it may be committed or not, as with any
// answer that is lost.
func (o *Op[X]) Wait(ctx context.Context) error {
	select {
	case <-o.done:
		return o.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do hands an operation to send and returns what fn returned once that is
// committed. The result is only read after that, so that fn, which runs on behalf
// of a caller who may be gone, never writes what somebody reads.
func Do[X, R any](ctx context.Context, fn func(X) (R, error), send func(context.Context, *Op[X]) error) (R, error) {
	var result, zero R
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	o := NewOp(func(x X) (err error) {
		result, err = fn(x)
		return err
	})
	if err := send(ctx, o); err != nil {
		return zero, err
	}
	if err := o.Wait(ctx); err != nil {
		return zero, err
	}
	return result, nil
}

// Queue holds what callers have sent until somebody takes it. Any number of
// goroutines may send and take.
type Queue[T any] struct {
	ops chan T

	mu      sync.RWMutex // guards stopped against sends on a closed channel
	stopped bool
}

// NewQueue is a queue in which size operations have room before Send blocks.
func NewQueue[T any](size int) *Queue[T] { return &Queue[T]{ops: make(chan T, size)} }

// Send puts an operation in the queue. ErrUnavailable after Stop.
func (q *Queue[T]) Send(ctx context.Context, op T) error {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.stopped {
		return bloom.ErrUnavailable
	}
	select {
	case q.ops <- op:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrFull says that a queue has no room at the moment.
var ErrFull = errors.New("the queue is full")

// TrySend is Send that does not wait for room: ErrFull when there is none.
func (q *Queue[T]) TrySend(op T) error {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.stopped {
		return bloom.ErrUnavailable
	}
	select {
	case q.ops <- op:
		return nil
	default:
		return ErrFull
	}
}

// Stop lets nothing more in. What is in the queue is still to be taken. Stopping
// twice is allowed.
func (q *Queue[T]) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.stopped {
		q.stopped = true
		close(q.ops)
	}
}

// Len is how many operations wait.
func (q *Queue[T]) Len() int { return len(q.ops) }

// Take waits for an operation and appends it and those that wait with it to
// group, as far as its capacity goes. ok is false when the queue was stopped and
// is empty.
func (q *Queue[T]) Take(group []T) (full []T, ok bool) {
	first, ok := <-q.ops
	if !ok {
		return group, false
	}
	group = append(group, first)
	for len(group) < cap(group) {
		select {
		case op, open := <-q.ops:
			if open {
				group = append(group, op)
				continue
			}
		default:
		}
		break
	}
	return group, true
}

// Serve hands out what waits, no more than most operations at once, until the queue was
// stopped and is empty. The group is only good until commit returns, which says how
// many callers there were before it answered them.
//
// A group waits for as many callers as there were last: those who have just been
// answered are about to ask again, and would come too late to share its commit. It
// waits for a quarter of what the last group took, at least for least and at most for
// longestWait; a single caller never waits.
func (q *Queue[T]) Serve(most int, least time.Duration, commit func(group []T) (callers int)) {
	room, callers, took := make([]T, 0, most), 0, time.Duration(0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		group, ok := q.Take(room)
		if !ok {
			return
		}
		timer.Reset(min(max(least, took/4), longestWait))
		group = q.Linger(group, callers, timer.C)
		began := time.Now()
		callers = commit(group)
		took = time.Since(began)
		clear(group) // callers who were answered are not kept from the collector
	}
}

const longestWait = 5 * time.Millisecond

// Linger appends what comes until group has n operations, or as many as its
// capacity, or until has a value.
func (q *Queue[T]) Linger(group []T, n int, until <-chan time.Time) []T {
	for len(group) < min(n, cap(group)) {
		select {
		case op, open := <-q.ops:
			if !open {
				return group
			}
			group = append(group, op)
		case <-until:
			return group
		}
	}
	return group
}
