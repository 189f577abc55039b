// Package retry is the one policy by which failed work is tried again, and the one
// sleep that a context can cut short. The waits are those of cenkalti/backoff.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy says how often work is tried and how long to wait between two tries. A Policy
// is a value: it may be shared.
type Policy struct {
	// First is the wait before the second try. It doubles with each further one.
	First time.Duration
	// Max bounds a wait before its jitter; 0 means First, so that the waits do not grow.
	Max time.Duration
	// Jitter is the largest part by which a wait is made longer at random, so that
	// callers that failed together do not come back together. 0.3 is up to 30 %.
	Jitter float64
	// Tries is the most tries, the first included; 0 sets no limit but the context's.
	Tries uint
}

// Waits returns the next wait with each call, for a loop that does more than Do. One
// goroutine at a time may call it.
func (p Policy) Waits() (next func() time.Duration) { return p.backOff().NextBackOff }

func (p Policy) backOff() *backoff.ExponentialBackOff {
	half := p.Jitter / 2 // the library spreads to both sides of the middle
	middle := func(d time.Duration) time.Duration { return time.Duration(float64(d) * (1 + half)) }
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = middle(p.First), middle(max(p.First, p.Max)), 2
	b.RandomizationFactor = half / (1 + half)
	return b
}

// Do calls op until it succeeds, fails with a Permanent error, was tried p.Tries times,
// or ctx ends. It returns the last result and the last error of op itself.
func Do[T any](ctx context.Context, p Policy, op func() (T, error)) (T, error) {
	var last error
	result, _ := backoff.Retry(ctx, func() (T, error) {
		var result T
		result, last = op()
		return result, last
	}, backoff.WithBackOff(p.backOff()), backoff.WithMaxTries(p.Tries), backoff.WithMaxElapsedTime(0))
	var permanent *backoff.PermanentError
	if errors.As(last, &permanent) {
		return result, permanent.Unwrap()
	}
	return result, last
}

// Permanent marks an error after which nothing is tried again. Permanent(nil) is nil.
func Permanent(err error) error { return backoff.Permanent(err) }

// Sleep waits, or returns ctx's error as soon as ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
