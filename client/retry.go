package client

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Retry says how calls that are safe to repeat are repeated. It is the policy of
// workers too. It is our own so that a program that imports the SDK gets no other dependency.
type Retry struct {
	// Tries is the most tries of one call, the first included; 0 means 4.
	Tries int
	// Base is the wait before the second try, doubled with each; 0 means 200 ms.
	Base time.Duration
	// Max bounds one wait, also one that the server asked for; 0 means 5 s.
	Max time.Duration
}

// NoRetry tries once, for callers with a loop of their own.
var NoRetry = Retry{Tries: 1}

func (r Retry) withDefaults() Retry {
	return Retry{
		Tries: max(1, cmp.Or(r.Tries, 4)),
		Base:  cmp.Or(r.Base, 200*time.Millisecond),
		Max:   cmp.Or(r.Max, 5*time.Second),
	}
}

// Wait is how long to wait after the nth failed try (from 0): Base × 2^n, at
// most Max, of which the second half is random so that clients which failed
// together do not come back together. A longer wish of the server's wins, up
// to Max.
func (r Retry) Wait(n int, err error) time.Duration {
	r = r.withDefaults()
	d := min(r.Base<<min(n, 20), r.Max)
	d = d/2 + rand.N(d/2+1)
	var api *APIError
	var away *Unreachable
	switch {
	case errors.As(err, &api):
		d = max(d, min(api.RetryAfter, r.Max))
	case errors.As(err, &away):
		d = max(d, min(away.RetryAfter, r.Max))
	}
	return d
}

// Safety says when a call may be tried again.
type safety int

const (
	// unsafe calls are repeated only when the server never acted on them.
	unsafe safety = iota
	safe
)

// again reports whether a failed try of a call may be repeated.
func (s safety) again(err error) bool {
	var api *APIError
	if errors.As(err, &api) {
		if errors.Is(err, errNoWorker) {
			return false // an answer, not a failure
		}
		return api.Status == 429 || (s == safe && Temporary(err))
	}
	var lost *Unreachable
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
