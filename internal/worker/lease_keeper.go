package worker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// leaseKeeper is the worker's belief in one lease: good until the start of the last
// request that renewed it, plus the TTL, minus a margin, on the monotonic
// clock. Its context is the work's; ending the belief ends the work.
type leaseKeeper struct {
	client *client.Client
	task   bloom.Task
	lease  bloom.Lease
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	expires int64     // Unix milliseconds by the server's clock, as it said last
	until   time.Time // believed in until then
	renewed time.Time // start of the request that renewed it last
	told    bool      // the server said that it is lost
	over    bool      // the work has ended: nothing is to be stopped any more, its outcome may wait
}

func newLeaseKeeper(ctx context.Context, c *client.Client, got bloom.LeasedTask, log *slog.Logger) *leaseKeeper {
	h := &leaseKeeper{client: c, task: got.Task, lease: got.Lease, expires: got.Lease.ExpiresAt, log: logOf(log, got.Task.ID, got.Lease.ID, requestOf(got.Task))}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	return h
}

func (h *leaseKeeper) ttl() time.Duration { return time.Duration(h.lease.TTLSeconds) * time.Second }

// margin is kept for the work to stop before somebody else may begin it.
func (h *leaseKeeper) margin() time.Duration { return min(h.ttl()/5, 10*time.Second) }

// renew says that a heartbeat begun at start renewed the lease, which expires then by
// the server's clock.
func (h *leaseKeeper) renew(start time.Time, expires int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expires = expires
	h.believe(start)
}

// claimed says when the lease expires by the answer to a claim begun at start. It was
// renewed only if that is later than before: a server may leave a lease as it is.
func (h *leaseKeeper) claimed(start time.Time, expires int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if expires > h.expires {
		h.expires = expires
		h.believe(start)
	}
}

// believe counts the lease's time from start. h.mu is held.
func (h *leaseKeeper) believe(start time.Time) {
	if start.After(h.renewed) {
		h.renewed, h.until = start, start.Add(h.ttl()-h.margin())
	}
}

// next is when the lease is to be renewed again.
func (h *leaseKeeper) next() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewed.Add(h.ttl() / 3)
}

// left is how long the lease is believed in without a renewal. An outcome waits for
// as long as it takes: the lease is the worker's until the server ends it.
func (h *leaseKeeper) left(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return math.MaxInt64
	}
	return h.until.Sub(now)
}

// lost says that the server no longer counts the lease as ours.
func (h *leaseKeeper) lost() {
	h.mu.Lock()
	stop := !h.told && !h.over
	h.told = true
	h.mu.Unlock()
	if stop {
		h.log.Warn("the lease was lost; the work is stopped and its outcome discarded")
		h.cancel(bloom.ErrLeaseGone)
	}
}

// cancelled says that the task is to be cancelled.
func (h *leaseKeeper) cancelled() {
	h.mu.Lock()
	stop := !h.over && h.ctx.Err() == nil
	h.mu.Unlock()
	if stop {
		h.log.Info("the task was cancelled; the work is stopped")
		h.cancel(bloom.ErrCancelled)
	}
}

// end says that the work is over, and how the belief stood.
func (h *leaseKeeper) end() (cause error, told bool) { //nolint:revive // the error is the answer, not a failure
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.ctx.Err() != nil {
		cause = context.Cause(h.ctx)
	}
	return cause, h.told
}

// confirm renews the lease for the first time, which makes the task running. It
// reports whether the work may begin. The lease came with an answer of just
// now, so that there is about a TTL's time to try.
func (h *leaseKeeper) confirm(now func() time.Time) bool {
	giveUp := now().Add(h.ttl() - h.margin())
	pace := client.Retry{Base: 50 * time.Millisecond, Max: min(h.ttl()/10, 2*time.Second)}
	for n := 0; h.ctx.Err() == nil; n++ {
		start := now()
		err := h.heartbeat(context.WithoutCancel(h.ctx), start, giveUp.Sub(start))
		if err == nil || !h.unanswered(err) {
			return err == nil && h.ctx.Err() == nil
		}
		if !now().Before(giveUp) {
			h.log.Warn("the server could not be reached to begin the task; it is left to others", "error", err)
			return false
		}
		_ = retry.Sleep(h.ctx, pace.Wait(n, nil))
	}
	return false
}

// keep renews the lease early, a third of the TTL after the last renewal, until
// ctx ends or the lease is lost. A claim that renewed it meanwhile spares the heartbeat.
func (h *leaseKeeper) keep(ctx context.Context, now func() time.Time) {
	pace := client.Retry{Base: h.ttl() / 40, Max: max(h.ttl()/10, time.Millisecond)}
	failures := 0
	for {
		wait := h.next().Sub(now())
		if failures > 0 {
			wait = pace.Wait(failures-1, nil)
		}
		if retry.Sleep(ctx, max(0, min(wait, h.left(now())))) != nil {
			return
		}
		if h.left(now()) <= 0 {
			h.expire()
			return
		}
		if failures == 0 && now().Before(h.next()) {
			continue // a claim was faster
		}
		if h.stopped() {
			return
		}
		start := now()
		if err := h.heartbeat(ctx, start, h.left(start)); err == nil {
			failures = 0
		} else if failures++; !h.unanswered(err) {
			return
		}
	}
}

func (h *leaseKeeper) stopped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// expire ends the belief in a lease that could not be renewed in time.
func (h *leaseKeeper) expire() {
	h.mu.Lock()
	stop := !h.over && h.ctx.Err() == nil
	h.mu.Unlock()
	if stop {
		h.log.Warn("the server could not be reached until the lease ran out; the work is stopped, another worker may have it by now")
	}
	h.cancel(bloom.ErrLeaseGone)
}

// heartbeat sends one heartbeat begun at start. It never takes longer than left, so
// that a silent server cannot outlast the belief in the lease.
func (h *leaseKeeper) heartbeat(ctx context.Context, start time.Time, left time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, min(left, max(h.ttl()/3, 250*time.Millisecond), 10*time.Second))
	defer cancel()
	res, err := h.client.Heartbeat(ctx, h.task.ID, h.lease.ID)
	switch {
	case err == nil:
		h.renew(start, res.ExpiresAt)
		if res.CancelRequested {
			h.cancelled()
		}
	case errors.Is(err, bloom.ErrLeaseLost), refused(err):
		h.lost()
	}
	return err
}

// unanswered tells a server that could not be asked from one that said no.
func (h *leaseKeeper) unanswered(err error) bool { return err != nil && !refused(err) }
