package client

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Retry configures the retries of idempotent calls. Workers use it, too. It is not a library's type
// so that programs that import the SDK get no other dependency.
type Retry struct {
	// Tries is the maximum number of tries of a call, including the first; 0 means 4.
	Tries int
	// Base is the wait before the second try; it doubles with each try. 0 means 200 ms.
	Base time.Duration
	// Max bounds one wait, including a Retry-After of the server; 0 means 5 s.
	Max time.Duration
}

// NoRetry disables retries, for callers with their own loop.
var NoRetry = Retry{Tries: 1}

func (r Retry) withDefaults() Retry {
	return Retry{
		Tries: max(1, cmp.Or(r.Tries, 4)),
		Base:  cmp.Or(r.Base, 200*time.Millisecond),
		Max:   cmp.Or(r.Max, 5*time.Second),
	}
}

// Wait returns how long to wait after the nth failed try (from 0): Base × 2^n, at most Max. Half of
// it is random, so that clients that failed together do not retry together. A longer Retry-After
// takes precedence, up to Max.
func (r Retry) Wait(n int, err error) time.Duration {
	r = r.withDefaults()
	d := min(r.Base<<min(n, 20), r.Max)
	d = d/2 + rand.N(d/2+1)
	var api *APIError
	var unreachable *UnreachableError
	switch {
	case errors.As(err, &api):
		d = max(d, min(api.RetryAfter, r.Max))
	case errors.As(err, &unreachable):
		d = max(d, min(unreachable.RetryAfter, r.Max))
	}
	return d
}

// safety says when a call may be retried.
type safety int

const (
	// unsafe calls are retried only when the server never acted on them.
	unsafe safety = iota
	safe
)

// mayRetry reports whether a failed try of a call may be retried.
func (s safety) mayRetry(err error) bool {
	var api *APIError
	if errors.As(err, &api) {
		if errors.Is(err, errNoWorker) {
			return false // a result, not a failure
		}
		return api.Status == 429 || (s == safe && Temporary(err))
	}
	var lost *UnreachableError
	return errors.As(err, &lost) && (s == safe || !lost.Sent)
}

// beforeRetry waits after the nth failed try (from 0) of a call.
func (c *Client) beforeRetry(ctx context.Context, n int, err error) error {
	wait := c.retry.Wait(n, err)
	if c.onRetry != nil {
		c.onRetry(err, wait)
	}
	return pause(ctx, wait)
}

// pause waits, or returns the context's error as soon as it is done.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
