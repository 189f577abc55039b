package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bloom-runtime/bloom"
)

// job is one lease from its being taken to its outcome's first try of delivery.
type job struct {
	keeper *leaseKeeper
	sender *eventSender
	since  time.Time
}

// take begins with what a claim brought. It is called by the poll's goroutine
// alone.
func (w *Worker) take(got bloom.LeasedTask) {
	id := got.Lease.ID
	if w.knows(id) || w.outbox.has(id) {
		return // a stale answer, or its outcome is on the way
	}
	switch {
	case w.stopping():
		w.giveBack(got, "the worker is stopping", 0)
	case w.state.begun(id):
		// An earlier life began it, or this one stopped it when the server was
		// away. Its work is never begun a second time under the same lease.
		logOf(w.log, got.Task.ID, id, requestOf(got.Task)).Warn("a lease whose work was cut short came back; the attempt is reported as lost")
		w.send(completion(got.Lease, failure(bloom.ClassWorkerLost, "The worker was interrupted in the middle of this attempt", true), w.now()).of(got.Task))
	case w.Status().Unwritable != "":
		w.giveBack(got, unwritableReason, 0)
	case got.Task.CancelRequested:
		w.send(completion(got.Lease, failure(bloom.ClassCancelled, "The task was cancelled before it was begun", false), w.now()).of(got.Task))
	default:
		w.start(got)
	}
}

// unwritableReason is why a worker that cannot note that it begins a task releases it,
// at once: others can run it.
const unwritableReason = "the worker cannot write its state folder"

func (w *Worker) start(got bloom.LeasedTask) {
	h := newLeaseKeeper(w.life, w.cfg.Client, got, w.log)
	j := &job{keeper: h, since: w.now()}
	j.sender = newEventSender(w.cfg.Client, got.Task.ID, got.Lease.ID, w.cfg.Clock, h.log, h.lost)
	w.mu.Lock()
	if w.stop { // under the lock: whoever waits for the runs has set it before
		w.mu.Unlock()
		h.cancel(nil)
		w.giveBack(got, "the worker is stopping", 0)
		return
	}
	w.jobs[got.Lease.ID] = j
	w.running.Add(1)
	w.mu.Unlock()
	go func() {
		defer w.running.Done()
		defer w.done(j)
		defer h.cancel(nil)
		w.work(j)
	}()
}

// work runs one task under its lease and sees to its outcome.
func (w *Worker) work(j *job) {
	h := j.keeper
	if !h.confirm(w.now) {
		w.notBegun(h)
		return
	}
	note := note{TaskID: h.task.ID, LeaseID: h.lease.ID, BegunAt: bloom.Millis(w.now())}
	if err := w.state.begin(note); err != nil {
		h.log.Error("the journal could not be written; the task is released", "error", err)
		w.unwritable(err)
		_, _ = h.end()
		w.first(release(h.lease, unwritableReason, 0, w.now()).of(h.task))
		return
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(h.ctx))
	defer stop()
	w.running.Go(func() { h.keep(keeping, w.now) })
	w.running.Go(func() { j.sender.run(keeping) })

	h.log.Info("task begun", "context_id", h.task.ContextID, "agent", h.task.AgentSlug, "attempt", h.task.Attempts)
	run := w.runSafely(j)
	cause, told := h.end()
	l := w.judge(j, run, cause, told).of(h.task)
	if l == nil {
		stop()
		j.sender.close(w.cfg.FlushWait) // ends at once: its context has
		return
	}
	l.keeper = h
	// On disk first: neither a slow stream nor a crash may cost the outcome.
	w.outbox.put(l)
	j.sender.close(w.cfg.FlushWait)
	w.attempt(l)
}

// notBegun sees to a lease whose work was stopped before it began. One that
// could only not be confirmed is left alone: whoever is handed it may begin.
func (w *Worker) notBegun(h *leaseKeeper) {
	cause, told := h.end()
	switch {
	case told:
	case errors.Is(cause, bloom.ErrCancelled):
		w.first(completion(h.lease, failure(bloom.ClassCancelled, "The task was cancelled before it was begun", false), w.now()).of(h.task))
	case errors.Is(cause, bloom.ErrDraining):
		w.first(release(h.lease, "the worker is stopping", 0, w.now()).of(h.task))
	}
}

// runSafely calls the runner; its panic is this attempt's failure and not the
// worker's end.
func (w *Worker) runSafely(j *job) (run bloom.Run) {
	defer func() {
		if p := recover(); p != nil {
			j.keeper.log.Error("the runner panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			run = bloom.Run{Completion: failure(bloom.ClassInternal, "The worker's runner crashed; its log has the details", false)}
		}
	}()
	return w.cfg.Runner.Run(j.keeper.ctx, j.keeper.task, j.sender.emit)
}

// judge decides what becomes of a run: the delivery to make, or nil for nothing.
func (w *Worker) judge(j *job, run bloom.Run, cause error, told bool) *delivery {
	h, now := j.keeper, w.now()
	success := run.Release == nil && run.Completion.Status == bloom.OutcomeSuccess
	switch {
	case told:
		w.count(func(s *Status) { s.Lost++ })
		w.state.settle(h.lease.ID)
		return nil
	case errors.Is(cause, bloom.ErrLeaseGone) && !success:
		// Not told, only out of time. Its note stays: should the lease come
		// back, it is reported as lost work instead of being begun again.
		w.count(func(s *Status) { s.Lost++ })
		return nil
	case success:
		return completion(h.lease, run.Completion, now)
	case errors.Is(cause, bloom.ErrCancelled):
		c := run.Completion
		if run.Release != nil || c.Status == "" {
			c = bloom.Completion{Metrics: c.Metrics, Output: c.Output}
		}
		c.Status, c.ErrorClass, c.Retryable = bloom.OutcomeError, bloom.ClassCancelled, false
		if c.ErrorMessage == nil {
			c.ErrorMessage = new("The task was cancelled")
		}
		return completion(h.lease, c, now)
	case run.Release != nil:
		notBefore := w.plausible(run.Release.NotBefore, now)
		if at := time.UnixMilli(notBefore); at.After(now) {
			w.park(j, at, run.Release.Reason)
		}
		return release(h.lease, run.Release.Reason, notBefore, now)
	case errors.Is(cause, bloom.ErrDraining):
		return release(h.lease, "the worker is stopping", 0, now)
	}
	return completion(h.lease, run.Completion, now)
}

// unknownDelay is waited where a provider says a time that cannot be meant.
const unknownDelay = time.Hour

// plausible is when a released task may start again, Unix milliseconds. A time too
// far away is a mistake of whoever said it.
func (w *Worker) plausible(notBefore int64, now time.Time) int64 {
	if notBefore <= bloom.Millis(now.Add(bloom.MaxReleaseDelay)) {
		return notBefore
	}
	w.log.Warn("ignoring an implausible time for the next start", "not_before", notBefore, "instead", unknownDelay)
	return bloom.Millis(now.Add(unknownDelay))
}

// park takes no new work until a limit of the worker's credential is over.
func (w *Worker) park(j *job, until time.Time, reason string) {
	j.sender.emit("parked", map[string]any{
		"message": "this worker takes no new tasks until " + until.UTC().Format(time.RFC3339), "until": bloom.Millis(until), "reason": reason,
	})
	w.mu.Lock()
	if until.After(w.parked) {
		w.parked = until
	}
	w.mu.Unlock()
	w.log.Warn("taking no new tasks for a while", "until", until.UTC().Format(time.RFC3339), "reason", reason)
}

// send makes an outcome durable and delivers it in the background.
func (w *Worker) send(l *delivery) {
	w.outbox.put(l)
	w.outbox.deliver(w.delivery, l, 0)
}

// first is send with the first try made here.
func (w *Worker) first(l *delivery) {
	w.outbox.put(l)
	w.attempt(l)
}

func (w *Worker) attempt(l *delivery) {
	if !w.outbox.try(w.delivery, l) {
		w.outbox.deliver(w.delivery, l, 1)
	}
}

func (w *Worker) giveBack(got bloom.LeasedTask, reason string, notBefore int64) {
	w.send(release(got.Lease, reason, notBefore, w.now()).of(got.Task))
}

// settled is told by the outbox that a lease's outcome is with the server.
func (w *Worker) settled(l delivery, delivered bool) {
	w.state.settle(l.LeaseID)
	log := l.logTo(w.log)
	switch {
	case !delivered:
		w.count(func(s *Status) { s.Refused++ })
		if l.Kind == deliveryCompletion && !l.Substitute && l.malformed {
			sub := completion(bloom.Lease{ID: l.LeaseID, TaskID: l.TaskID, TTLSeconds: l.TTL},
				failure(bloom.ClassInternal, "The server did not accept this attempt's completion; the worker keeps it aside", false), w.now())
			sub.Substitute, sub.Request, sub.volatile = true, l.Request, l.unmoved
			w.send(sub)
		}
	case l.Kind == deliveryRelease:
		w.count(func(s *Status) { s.Released++ })
		log.Info("task released")
	default:
		w.count(func(s *Status) { s.Completed++ })
		if l.Class != "" {
			log = log.With("error_class", l.Class)
		}
		log.Info("task finished and reported", "status", l.Status)
	}
}
