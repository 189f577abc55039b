package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloom-runtime/bloom/internal/retry"
)

var errWork = errors.New("the work failed")

func TestWaitsDoubleUpToTheirBoundAndJitterOnlyAdds(t *testing.T) {
	t.Parallel()
	p := retry.Policy{First: 500 * time.Millisecond, Max: 2 * time.Second, Jitter: 0.3}
	for range 200 {
		next := p.Waits()
		for i, least := range []time.Duration{p.First, 2 * p.First, p.Max, p.Max} {
			if got := next(); got < least-time.Microsecond || got > least*13/10+time.Microsecond {
				t.Fatalf("wait %d: %v, want %v and up to 30 %% more", i, got, least)
			}
		}
	}
	steady := retry.Policy{First: time.Second}.Waits()
	for range 3 {
		if got := steady(); got != time.Second {
			t.Errorf("a steady wait: %v", got)
		}
	}
}

func TestWorkIsTriedUntilItSucceedsOrMayNotBeTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{First: time.Second, Max: time.Minute, Tries: 4}
		for name, c := range map[string]struct {
			outcomes []error
			tries    int
			took     time.Duration
			err      error
		}{
			"at once":        {outcomes: []error{nil}, tries: 1},
			"later":          {outcomes: []error{errWork, errWork, nil}, tries: 3, took: 3 * time.Second},
			"never":          {outcomes: []error{errWork, errWork, errWork, errWork}, tries: 4, took: 7 * time.Second, err: errWork},
			"not to be done": {outcomes: []error{errWork, retry.Permanent(errWork)}, tries: 2, took: time.Second, err: errWork},
		} {
			tries, began := 0, time.Now()
			got, err := retry.Do(t.Context(), p, func() (int, error) { tries++; return tries, c.outcomes[tries-1] })
			if tries != c.tries || got != tries || time.Since(began) != c.took || !errors.Is(err, c.err) || errors.Unwrap(err) != nil {
				t.Errorf("%s: %d tries in %v: %d, %v", name, tries, time.Since(began), got, err)
			}
		}
	})
}

func TestACancelledContextEndsTheWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		began := time.Now()
		_, err := retry.Do(ctx, retry.Policy{First: time.Minute}, func() (int, error) { return 0, errWork })
		if !errors.Is(err, errWork) || time.Since(began) != 90*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := retry.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 90*time.Second {
			t.Errorf("a sleep after the end: %v after %v", err, time.Since(began))
		}
		if err := retry.Sleep(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
	})
}
