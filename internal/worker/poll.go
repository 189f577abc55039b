package worker

import (
	"context"
	"errors"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// pollRetry paces polls while the server is away.
var pollRetry = client.Retry{Base: 250 * time.Millisecond, Max: 10 * time.Second}

// repeatPace is the pause after an answer that changed nothing. The server answers
// at once while a run that it wants cancelled continues, or while it says drain.
const repeatPace = 500 * time.Millisecond

// polling is a poll in flight, or the wait between two.
type polling struct {
	max    int
	cancel context.CancelFunc
}

// poll is the claim loop. It returns nil when ctx ends, and an error when another
// process has this worker's name.
func (w *Worker) poll(ctx context.Context) error {
	forget := newForgetter(ctx, w)
	defer forget.stop()
	for n := 0; ctx.Err() == nil; {
		if err := w.checkReady(ctx); err != nil {
			return ignoreAfterEnd(ctx, err)
		}
		changed, err := w.claim(ctx, forget)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			n = 0
			if !changed {
				w.pause(ctx, repeatPace)
			}
		case errors.Is(err, context.Canceled):
			// interrupt was called: something changed, so claim again
		case errors.Is(err, bloom.ErrWorkerConflict):
			w.log.Error("stopping: another live process has this worker's name", "error", err)
			return err
		case bloom.KindOf(err) == bloom.KindNotFound && !client.Temporary(err):
			w.log.Warn("registering again: the server no longer knows this worker")
			if err := w.register(ctx, false); err != nil {
				return ignoreAfterEnd(ctx, err)
			}
		default:
			w.disconnected(err)
			w.pause(ctx, pollRetry.Wait(n, err))
			n++
		}
	}
	return nil
}

// ignoreAfterEnd returns err, or nil when ctx has ended.
func ignoreAfterEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// drainPace is how often a drained worker checks whether the server has undrained it, in
// whole seconds.
const drainPace = 2 * time.Second

// claim makes one poll. It reports whether the answer changed anything or took at
// least repeatPace, so that the next poll may follow at once.
func (w *Worker) claim(ctx context.Context, forget *forgetter) (changed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask, asked := w.ask(cancel)
	defer w.answered()
	if forget.more {
		ask.Wait = 0 // an answer names a limited number; fetch the next ones
	}
	start := w.now()
	res, err := w.cfg.Client.Claim(ctx, w.cfg.Name, ask)
	if err != nil {
		return false, err
	}
	w.connected()
	forget.begin(res.Forgotten, res.ForgottenAll)
	return w.apply(res, start, asked) || w.now().Sub(start) >= repeatPace, nil
}

// ask builds the claim from the worker's state and makes it the one that interrupt
// cancels. Both happen under one lock, so that no change is missed between them.
func (w *Worker) ask(cancel context.CancelFunc) (client.Claim, map[string]*job) {
	held := w.outbox.held()
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := make(map[string]*job, len(w.jobs))
	for id, j := range w.jobs {
		asked[id] = j
	}
	for _, id := range held {
		if asked[id] == nil {
			asked[id] = nil
		}
	}
	c := client.Claim{
		InstanceID: w.state.instance, Wait: w.cfg.PollWait, TTLSeconds: int(w.cfg.LeaseTTL / time.Second),
		Max: max(0, w.cfg.Capabilities.MaxConcurrency-len(w.jobs)), Held: make([]string, 0, len(asked)), Usage: map[string]bloom.Usage{},
	}
	for id, j := range asked {
		c.Held = append(c.Held, id)
		if j == nil {
			continue
		}
		if used := j.keeper.usage(); used != nil {
			c.Usage[id] = *used
		}
	}
	if w.cfg.Forget != nil {
		last := w.state.forgotten.named()
		c.Forgotten, c.ForgottenID = &last.Seq, last.ID
	}
	now := w.now()
	switch {
	case w.stop:
		c.Max = 0
	case w.registrationStale():
		// Fetch what the server has for this worker at once, then register.
		c.Max, c.Wait = 0, 0
	case w.serverDrain:
		// A claim returns early when the worker is drained, not when it is undrained.
		c.Max = 0
		c.Wait = min(c.Wait, drainPace)
	case w.controlDrain != nil && *w.controlDrain:
		c.Max = 0
	case !w.ready():
		c.Max = 0
		c.Wait = min(c.Wait, readyPace)
	case w.paused() != nil:
		c.Max = 0
		c.Wait = min(c.Wait, max(time.Second, w.parked().Sub(now)))
	case w.limited:
		c.Max = max(0, min(c.Max, 1-w.begunSince(w.refusedAt)))
	}
	w.inPoll = &polling{max: c.Max, cancel: cancel}
	w.status.Polling = true
	return c, asked
}

// begunSince counts the jobs that began after t. It requires w.mu.
func (w *Worker) begunSince(t time.Time) (n int) {
	for _, j := range w.jobs {
		if j.since.After(t) {
			n++
		}
	}
	return n
}

func (w *Worker) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inPoll = nil
}

// interrupt cancels the poll in flight, or the pause between two, so that the next
// one sends the worker's current state. Leases in a cancelled answer come again with
// the next one.
func (w *Worker) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inPoll != nil {
		w.inPoll.cancel()
	}
}

// pause waits between two polls, until interrupt is called.
func (w *Worker) pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.inPoll = &polling{cancel: cancel}
	w.mu.Unlock()
	defer w.answered()
	_ = retry.Sleep(ctx, d)
}

// apply does what an answer says and reports whether it changed anything.
func (w *Worker) apply(res bloom.ClaimResult, start time.Time, asked map[string]*job) (changed bool) {
	for _, r := range res.Renewed {
		if j := asked[r.LeaseID]; j != nil {
			j.keeper.renewedByClaim(start, r.ExpiresAt)
		}
		w.outbox.renewed(r.LeaseID, start, r.ExpiresAt)
	}
	for _, id := range res.Lost {
		j := asked[id]
		switch {
		case w.outbox.lost(id):
			changed = true
		case !w.hasJob(id):
			// The worker completed it meanwhile. There is nothing to stop, but the
			// next claim no longer names it, so it may follow at once.
			changed = true
		case j != nil && w.firstStop(id):
			j.keeper.lost()
			changed = true
		}
	}
	for _, id := range res.Cancel {
		if j := asked[id]; j != nil && w.firstStop(id) {
			j.keeper.cancelled()
			changed = true
		}
	}
	changed = w.followServer(res.Drain) || changed
	return w.takeAll(res.Leases) || changed
}

// takeAll takes the leases of an answer and reports whether one is new.
func (w *Worker) takeAll(leases []bloom.LeasedTask) (changed bool) {
	for _, got := range leases {
		if !w.hasJob(got.Lease.ID) && !w.outbox.has(got.Lease.ID) {
			changed = true
		}
		w.take(got)
	}
	return changed
}

// firstStop reports whether the lease's job has not been stopped before.
func (w *Worker) firstStop(leaseID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.stopSent[leaseID]
	if w.jobs[leaseID] != nil {
		w.stopSent[leaseID] = true
	}
	return first
}
