package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// leaseKeeper renews one lease and ends its work when the lease is lost or was not
// renewed in time. The worker relies on the lease until the start of the last request
// that renewed it, plus the TTL, minus a margin, on the monotonic clock.
type leaseKeeper struct {
	client *client.Client
	task   bloom.Task
	lease  bloom.Lease
	log    *slog.Logger
	ctx    context.Context // of the work
	cancel context.CancelCauseFunc

	mu           sync.Mutex
	expires      int64       // by the server's clock, Unix milliseconds
	validUntil   time.Time   // the work stops then unless the lease is renewed
	renewed      time.Time   // start of the last request that renewed it
	reportedLost bool        // the server said that it is lost
	finished     bool        // the work has ended; only its outcome is to be delivered
	used         bloom.Usage // so far; sent with renewals
}

func newLeaseKeeper(ctx context.Context, c *client.Client, got bloom.LeasedTask, log *slog.Logger) *leaseKeeper {
	k := &leaseKeeper{client: c, task: got.Task, lease: got.Lease, expires: got.Lease.ExpiresAt, log: leaseLogger(log, got.Task.ID, got.Lease.ID, requestOf(got.Task))}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	return k
}

func (k *leaseKeeper) ttl() time.Duration { return time.Duration(k.lease.TTLSeconds) * time.Second }

// margin is the time in which the work stops before another worker may begin it.
func (k *leaseKeeper) margin() time.Duration { return min(k.ttl()/5, 10*time.Second) }

// renew records that a heartbeat sent at start renewed the lease until expires, by the
// server's clock.
func (k *leaseKeeper) renew(start time.Time, expires int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expires = expires
	k.extend(start)
}

// renewedByClaim records the expiry in the answer to a claim sent at start. The claim
// renewed the lease only if it expires later than before.
func (k *leaseKeeper) renewedByClaim(start time.Time, expires int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if expires > k.expires {
		k.expires = expires
		k.extend(start)
	}
}

// extend counts the TTL from start. It requires k.mu.
func (k *leaseKeeper) extend(start time.Time) {
	if start.After(k.renewed) {
		k.renewed, k.validUntil = start, start.Add(k.ttl()-k.margin())
	}
}

// next returns when to renew the lease again.
func (k *leaseKeeper) next() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.renewed.Add(k.ttl() / 3)
}

// remaining returns how long the lease is valid without a renewal. It has no limit
// once the work has ended, because an outcome waits until the server takes it.
func (k *leaseKeeper) remaining(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.finished {
		return math.MaxInt64
	}
	return k.validUntil.Sub(now)
}

// lost records that the server said the lease is lost, and stops the work.
func (k *leaseKeeper) lost() {
	k.mu.Lock()
	k.reportedLost = true
	k.mu.Unlock()
	k.stop(attempt.ErrLeaseGone, slog.LevelWarn, "the lease was lost; stopping the work")
}

// cancelled stops the work of a cancelled task.
func (k *leaseKeeper) cancelled() {
	k.stop(attempt.ErrCancelled, slog.LevelInfo, "the task was cancelled; stopping the work")
}

// stop stops the work for the cause, unless it has ended or was stopped before.
func (k *leaseKeeper) stop(cause error, level slog.Level, message string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.finished && k.ctx.Err() == nil {
		k.log.Log(k.ctx, level, message)
		k.cancel(cause)
	}
}

// finish records that the work has ended. It returns why the work was stopped, nil if
// it was not, and whether the server said that the lease is lost.
func (k *leaseKeeper) finish() (cause error, lost bool) { //nolint:revive // the error is the answer, not a failure
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finished = true
	if k.ctx.Err() != nil {
		cause = context.Cause(k.ctx)
	}
	return cause, k.reportedLost
}

// confirm renews the lease for the first time, which makes the task running. It
// reports whether the work may begin. The lease was just granted, so it retries for
// nearly a TTL.
func (k *leaseKeeper) confirm(now func() time.Time) bool {
	deadline := now().Add(k.ttl() - k.margin())
	pace := client.Retry{Base: 50 * time.Millisecond, Max: min(k.ttl()/10, 2*time.Second)}
	for n := 0; k.ctx.Err() == nil; n++ {
		start := now()
		err := k.heartbeat(context.WithoutCancel(k.ctx), start, deadline.Sub(start))
		if err == nil || !k.retryable(err) {
			return err == nil && k.ctx.Err() == nil
		}
		if !now().Before(deadline) {
			k.log.Warn("not beginning the task: its lease could not be confirmed", "error", err)
			return false
		}
		_ = retry.Sleep(k.ctx, pace.Wait(n, nil))
	}
	return false
}

// keep renews the lease a third of the TTL after the last renewal, until ctx ends or
// the lease is lost. It sends no heartbeat when a claim has renewed the lease.
func (k *leaseKeeper) keep(ctx context.Context, now func() time.Time) {
	pace := client.Retry{Base: k.ttl() / 40, Max: max(k.ttl()/10, time.Millisecond)}
	failures := 0
	for {
		wait := k.next().Sub(now())
		if failures > 0 {
			wait = pace.Wait(failures-1, nil)
		}
		if retry.Sleep(ctx, max(0, min(wait, k.remaining(now())))) != nil {
			return
		}
		if k.remaining(now()) <= 0 {
			k.stop(attempt.ErrLeaseGone, slog.LevelWarn, "the lease ran out before it could be renewed; stopping the work, because another worker may have the task")
			return
		}
		if failures == 0 && now().Before(k.next()) {
			continue // a claim renewed it
		}
		if k.isLost() {
			return
		}
		start := now()
		if err := k.heartbeat(ctx, start, k.remaining(start)); err == nil {
			failures = 0
		} else if failures++; !k.retryable(err) {
			return
		}
	}
}

func (k *leaseKeeper) isLost() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reportedLost
}

// heartbeat sends one heartbeat at start. It takes at most limit, so that a server that
// does not answer cannot delay it beyond the lease's end.
func (k *leaseKeeper) heartbeat(ctx context.Context, start time.Time, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, min(limit, max(k.ttl()/3, 250*time.Millisecond), 10*time.Second))
	defer cancel()
	res, err := k.client.Heartbeat(ctx, k.task.ID, k.lease.ID, k.usage())
	switch {
	case err == nil:
		k.renew(start, res.ExpiresAt)
		if res.CancelRequested {
			k.cancelled()
		}
	case errors.Is(err, bloom.ErrLeaseLost), refused(err):
		k.lost()
	}
	return err
}

// noteUsage records the work's usage event.
func (k *leaseKeeper) noteUsage(event any) {
	var e struct {
		bloom.Usage
		CacheCreation int64 `json:"cache_creation_tokens"`
	}
	raw, err := json.Marshal(event)
	if err != nil || json.Unmarshal(raw, &e) != nil {
		return
	}
	e.InputTokens += e.CacheCreation // as in the metrics of a completion
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used = e.Usage
}

// usage returns what the work has used so far, nil if that is unknown.
func (k *leaseKeeper) usage() *bloom.Usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.used == (bloom.Usage{}) {
		return nil
	}
	used := k.used
	return &used
}

// retryable reports whether a request failed otherwise than by the server's refusal.
func (k *leaseKeeper) retryable(err error) bool { return err != nil && !refused(err) }
