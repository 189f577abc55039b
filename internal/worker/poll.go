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

// repeatPace is how long to wait before asking again when an answer said
// nothing new: the server answers at once for as long as a run it wants
// cancelled goes on, or it says drain.
const repeatPace = 500 * time.Millisecond

// polling is a poll in flight, or the wait between two.
type polling struct {
	max    int
	cancel context.CancelFunc
}

// poll is the claim loop: it returns nil when ctx ends, and an error when
// another process has our name.
func (w *Worker) poll(ctx context.Context) error {
	forgets := newForgets(ctx, w)
	defer forgets.stop()
	for n := 0; ctx.Err() == nil; {
		if err := w.able(ctx); err != nil {
			return ended(ctx, err)
		}
		news, err := w.claim(ctx, forgets)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			n = 0
			if !news {
				w.pause(ctx, repeatPace)
			}
		case errors.Is(err, context.Canceled):
			// interrupted by ourselves: something changed, ask anew
		case errors.Is(err, bloom.ErrWorkerConflict):
			w.log.Error("another living process has this worker's name; this one stops", "error", err)
			return err
		case bloom.KindOf(err) == bloom.KindNotFound && !client.Temporary(err):
			w.log.Warn("the server does not know this worker any more; registering again")
			if err := w.register(ctx, false); err != nil {
				return ended(ctx, err)
			}
		default:
			w.unreached(err)
			w.pause(ctx, pollRetry.Wait(n, err))
			n++
		}
	}
	return nil
}

// ended is err unless it only says that ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readyPace is how often a worker that cannot run tasks looks whether it can.
const readyPace = 5 * time.Second

// able looks whether tasks can be run, and registers anew when it now can take
// them, or cannot.
func (w *Worker) able(ctx context.Context) error {
	w.writable()
	err := w.notReady(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.mu.Lock()
	changed := sentence(err) != sentence(w.unable)
	w.unable = err
	news := w.unreported()
	w.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		w.log.Error("not claiming tasks: claude is unavailable", "error", err)
	default:
		w.log.Info("claiming tasks again: claude is available")
	}
	if !news {
		return nil
	}
	return w.register(ctx, false)
}

func sentence(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// drainPace is how often a drained worker asks whether the server has undrained it, in
// whole seconds.
const drainPace = 2 * time.Second

// fit reports whether tasks can be run here. w.mu is held.
func (w *Worker) fit() bool { return w.unable == nil && w.unwritten == nil }

// unwritable says that the state folder could not be written: without it no task can
// be begun, nor an outcome kept. Until it can be written the worker claims nothing.
func (w *Worker) unwritable(err error) {
	w.mu.Lock()
	first := w.unwritten == nil
	w.unwritten = err
	w.mu.Unlock()
	if first {
		w.log.Error("not claiming tasks: the state folder cannot be written; make room or correct its permissions, the worker goes on by itself",
			"folder", w.cfg.StateDir, "error", err)
		w.interrupt()
	}
}

// writable looks whether a state folder that could not be written now can.
func (w *Worker) writable() {
	w.mu.Lock()
	before := w.unwritten
	w.mu.Unlock()
	if before == nil {
		return
	}
	err := w.state.probe()
	w.mu.Lock()
	w.unwritten = err
	w.mu.Unlock()
	if err == nil {
		w.log.Info("claiming tasks again: the state folder can be written")
	}
}

// unreported reports whether something has changed since the last registration. w.mu
// is held.
func (w *Worker) unreported() bool {
	drain, reported := w.controlDrain, w.reportedDrain
	return (w.unable == nil) != w.reportedFit || (w.unwritten != nil) != w.reportedTrouble || drain != nil && (reported == nil || *reported != *drain)
}

func (w *Worker) notReady(ctx context.Context) error {
	if w.cfg.Ready == nil {
		return nil
	}
	return w.cfg.Ready(ctx)
}

// claim makes one poll. news tells whether the answer changed anything, or took
// its time: then the next one may follow at once.
func (w *Worker) claim(ctx context.Context, forgets *forgets) (news bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask, asked := w.ask(cancel)
	defer w.answered()
	if forgets.more {
		ask.Wait = 0 // an answer names only so many
	}
	start := w.now()
	res, err := w.cfg.Client.Claim(ctx, w.cfg.Name, ask)
	if err != nil {
		return false, err
	}
	w.reached()
	forgets.begin(res.Forgotten)
	return w.obey(res, start, asked) || w.now().Sub(start) >= repeatPace, nil
}

// ask builds the claim from how things stand, and makes it the one that
// interrupt ends, under the same lock: no change can slip between.
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
		Max: max(0, w.cfg.Capabilities.MaxConcurrency-len(w.jobs)), Held: make([]string, 0, len(asked)),
	}
	for id := range asked {
		c.Held = append(c.Held, id)
	}
	if w.cfg.Forget != nil {
		c.Forgotten = new(w.state.forgotten.told())
	}
	now := w.now()
	switch {
	case w.stop:
		c.Max = 0
	case w.unreported():
		// It changed since the registration: claim what is due, then register.
		c.Max, c.Wait = 0, 0
	case w.serverDrain:
		// A claim returns early when the worker is drained, not when it is undrained.
		c.Max = 0
		c.Wait = min(c.Wait, drainPace)
	case w.controlDrain != nil && *w.controlDrain:
		c.Max = 0
	case !w.fit():
		c.Max = 0
		c.Wait = min(c.Wait, readyPace)
	case now.Before(w.parked):
		c.Max = 0
		c.Wait = min(c.Wait, max(time.Second, w.parked.Sub(now)))
	}
	w.inPoll = &polling{max: c.Max, cancel: cancel}
	w.status.Polling = true
	return c, asked
}

func (w *Worker) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inPoll = nil
}

// interrupt ends the poll in flight, or the wait between two, so that the next
// one tells how things stand now. Leases whose answer is lost by it come with
// the next one.
func (w *Worker) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inPoll != nil {
		w.inPoll.cancel()
	}
}

// pause waits between two polls unless something changes.
func (w *Worker) pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.inPoll = &polling{cancel: cancel}
	w.mu.Unlock()
	defer w.answered()
	_ = retry.Sleep(ctx, d)
}

// obey does what an answer says and reports whether it said anything new.
func (w *Worker) obey(res bloom.ClaimResult, start time.Time, asked map[string]*job) (news bool) {
	for _, r := range res.Renewed {
		if j := asked[r.LeaseID]; j != nil {
			j.keeper.claimed(start, r.ExpiresAt)
		}
		w.outbox.renewed(r.LeaseID, start, r.ExpiresAt)
	}
	for _, id := range res.Lost {
		j := asked[id]
		switch {
		case w.outbox.lost(id):
			news = true
		case !w.knows(id):
			// "Lost" by our having completed it meanwhile. Nothing to stop, but
			// the next claim no longer names it, so it may follow at once.
			news = true
		case j != nil && w.once(id):
			j.keeper.lost()
			news = true
		}
	}
	for _, id := range res.Cancel {
		if j := asked[id]; j != nil && w.once(id) {
			j.keeper.cancelled()
			news = true
		}
	}
	news = w.followServer(res.Drain) || news
	for _, got := range res.Leases {
		if !w.knows(got.Lease.ID) && !w.outbox.has(got.Lease.ID) {
			news = true
		}
		w.take(got)
	}
	return news
}

// once reports whether this is the first time that the lease is to be stopped.
func (w *Worker) once(leaseID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.told[leaseID]
	if w.jobs[leaseID] != nil {
		w.told[leaseID] = true
	}
	return first
}

// lastClaim fetches what an interrupted poll may have been given, so that it
// goes back to the queue now and not when its lease expires.
func (w *Worker) lastClaim(ctx context.Context) {
	res, err := w.cfg.Client.Claim(ctx, w.cfg.Name, client.Claim{InstanceID: w.state.instance, Held: w.heldNow()})
	if err != nil {
		return
	}
	for _, got := range res.Leases {
		w.take(got)
	}
}

func (w *Worker) heldNow() []string {
	held := w.outbox.held()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.jobs {
		held = append(held, id)
	}
	return held
}

// reached and unreached tell once when the server goes and comes.
func (w *Worker) reached() {
	w.mu.Lock()
	back := !w.status.Connected && w.status.Trouble != ""
	w.status.Connected, w.status.Trouble = true, ""
	w.mu.Unlock()
	if back {
		w.log.Info("the server is back")
	}
	if back || w.outbox.size() > 0 {
		w.outbox.wake()
	}
}

func (w *Worker) unreached(err error) {
	w.mu.Lock()
	first := w.status.Trouble == ""
	w.status.Connected, w.status.Trouble = false, err.Error()
	w.mu.Unlock()
	if first {
		w.log.Warn("no work can be claimed; running tasks go on while their leases last", "error", err)
	}
}
