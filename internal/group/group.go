// Package group lets many callers share one transaction (group commit): a queue of operations from
// which the committer takes all that wait, the callers' wait for the outcome, and the feed of
// committed changes. It knows no database.
package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Op is one caller's operation on X, the transaction.
type Op[X any] struct {
	// Err is the outcome, set before Finish.
	Err error

	run  func(X) error
	done chan struct{}
}

// NewOp returns an operation that calls run. It calls run again if its transaction is rolled back.
func NewOp[X any](run func(X) error) *Op[X] {
	return &Op[X]{run: run, done: make(chan struct{})}
}

// Run runs the operation once. A panic fails only this operation.
func (o *Op[X]) Run(x X) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a write: %v", p)
		}
	}()
	return o.run(x)
}

// Finish releases the caller of Wait. Call it once, after the commit.
func (o *Op[X]) Finish() { close(o.done) }

// Wait returns the outcome. If ctx ends first, the outcome is unknown to the caller, as with any
// lost response.
func (o *Op[X]) Wait(ctx context.Context) error {
	select {
	case <-o.done:
		return o.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do sends an operation and returns the result of fn after it is committed. The result is read only
// then, so that fn, whose caller may be gone, never writes what another goroutine reads.
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

// Queue holds operations until they are taken. It is safe for concurrent use.
type Queue[T any] struct {
	ops  chan T
	stop chan struct{} // closed by Stop, before ops

	mu      sync.RWMutex // guards stopped; never held while waiting
	stopped bool
	sending sync.WaitGroup // those who may send to ops
}

// NewQueue returns a queue with room for size operations; when it is full, Send blocks.
func NewQueue[T any](size int) *Queue[T] {
	return &Queue[T]{ops: make(chan T, size), stop: make(chan struct{})}
}

// Send adds an operation. ErrUnavailable after Stop, which also ends the wait for room.
func (q *Queue[T]) Send(ctx context.Context, op T) error {
	if !q.enter() {
		return bloom.ErrUnavailable
	}
	defer q.sending.Done()
	select {
	case q.ops <- op:
		return nil
	case <-q.stop:
		return bloom.ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter lets the caller send to ops until it calls sending.Done, unless the queue is stopped.
func (q *Queue[T]) enter() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.stopped {
		return false
	}
	q.sending.Add(1)
	return true
}

// ErrFull is returned when a queue has no room.
var ErrFull = errors.New("the queue is full")

// TrySend is Send without waiting: ErrFull when there is no room.
func (q *Queue[T]) TrySend(op T) error {
	if !q.enter() {
		return bloom.ErrUnavailable
	}
	defer q.sending.Done()
	select {
	case q.ops <- op:
		return nil
	default:
		return ErrFull
	}
}

// Stop refuses further operations. Those in the queue can still be taken. Stopping twice is
// allowed.
func (q *Queue[T]) Stop() {
	q.mu.Lock()
	already := q.stopped
	q.stopped = true
	q.mu.Unlock()
	if already {
		return
	}
	close(q.stop)
	q.sending.Wait()
	close(q.ops)
}

// Len returns the number of waiting operations.
func (q *Queue[T]) Len() int { return len(q.ops) }

// Take waits for an operation and appends it and all others that wait to group, up to its capacity.
// ok is false when the queue is stopped and empty.
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

// Serve calls commit with the waiting operations, no more than most at a time, until the queue is
// stopped and empty. The group is valid only until commit returns, which returns the number of
// callers in it.
//
// Serve waits for as many operations as the last group had callers: those who just got their
// results are likely to send again, and would otherwise miss the next commit. It waits for a
// quarter of the last commit's duration, within least and longestWait; it never waits
// after a single caller.
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
		clear(group) // let the garbage collector free finished operations
	}
}

const longestWait = 5 * time.Millisecond

// Linger appends operations until group has n of them, or is full, or until fires.
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
