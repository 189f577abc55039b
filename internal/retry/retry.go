// Package retry has the retry policy for failed work and a sleep that a context interrupts. The
// waits are those of cenkalti/backoff.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy configures how often work is tried and the waits in between. A Policy is a value and may
// be shared.
type Policy struct {
	// First is the wait before the second try. It doubles with each try.
	First time.Duration
	// Max bounds a wait without its jitter; 0 means First, so that the waits are constant.
	Max time.Duration
	// Jitter is the largest random addition to a wait, as a fraction, so that callers that failed
	// together do not retry together. 0.3 means up to 30 %.
	Jitter float64
	// Tries is the maximum number of tries, including the first; 0 means unlimited.
	Tries uint
}

// Waits returns a function that returns the next wait, for loops that need more than Do. It is not
// safe for concurrent use.
func (p Policy) Waits() (next func() time.Duration) { return p.backOff().NextBackOff }

func (p Policy) backOff() *backoff.ExponentialBackOff {
	half := p.Jitter / 2 // the library spreads to both sides of the middle
	middle := func(d time.Duration) time.Duration { return time.Duration(float64(d) * (1 + half)) }
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = middle(p.First), middle(max(p.First, p.Max)), 2
	b.RandomizationFactor = half / (1 + half)
	return b
}

// Do calls op until it succeeds, fails with a Permanent error, has been tried p.Tries times, or ctx
// ends. It returns the last result and error of op.
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

// Permanent marks an error that is not retried. Permanent(nil) is nil.
func Permanent(err error) error { return backoff.Permanent(err) }

// Sleep waits for d, or returns ctx's error as soon as ctx ends.
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
