package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// job is the work under one lease, until its outcome is first sent.
type job struct {
	keeper *leaseKeeper
	sender *eventSender
	since  time.Time

	refusals     int  // how often the task's credentials were refused; set when the run has ended
	refusedAlone bool // those of others were not; set when the run has ended
}

// take handles a lease from a claim. Only the polling goroutine calls it.
func (w *Worker) take(got bloom.LeasedTask) {
	id := got.Lease.ID
	if w.hasJob(id) || w.outbox.has(id) {
		return // a stale answer, or its outcome is being delivered
	}
	switch {
	case w.stopping():
		w.releaseLease(got, "the worker is stopping", 0)
	case w.state.begun(id):
		// An earlier process began it, or this one stopped it while the server was
		// unavailable. Work never begins twice under one lease.
		leaseLogger(w.log, got.Task.ID, id, requestOf(got.Task)).Warn("reporting an interrupted attempt as lost: its lease was returned to this worker")
		w.send(completion(got.Lease, failure(bloom.ClassWorkerLost, "The worker was interrupted in the middle of this attempt", true), w.now()).withRequest(got.Task))
	case w.Status().StateError != "":
		w.releaseLease(got, stateFailedReason, 0)
	case got.Task.CancelRequested:
		w.send(completion(got.Lease, failure(bloom.ClassCancelled, "The task was cancelled before it was begun", false), w.now()).withRequest(got.Task))
	default:
		w.start(got)
	}
}

// stateFailedReason is why a worker that cannot write its journal releases a task, which
// other workers can then run at once.
const stateFailedReason = "the worker cannot write its state folder"

func (w *Worker) start(got bloom.LeasedTask) {
	k := newLeaseKeeper(w.runCtx, w.cfg.Client, got, w.log)
	j := &job{keeper: k, since: w.now()}
	j.sender = newEventSender(w.cfg.Client, got.Task.ID, got.Lease.ID, w.cfg.Clock, k.log, k.lost)
	w.mu.Lock()
	if w.stop { // checked under the lock, so that no job starts after awaitRuns
		w.mu.Unlock()
		k.cancel(nil)
		w.releaseLease(got, "the worker is stopping", 0)
		return
	}
	w.jobs[got.Lease.ID] = j
	w.running.Add(1)
	w.mu.Unlock()
	go func() {
		defer w.running.Done()
		defer w.removeJob(j)
		defer k.cancel(nil)
		w.work(j)
	}()
}

// work runs one task under its lease and sends its outcome.
func (w *Worker) work(j *job) {
	k := j.keeper
	if !k.confirm(w.now) {
		w.handleUnstarted(k)
		return
	}
	entry := journalEntry{TaskID: k.task.ID, LeaseID: k.lease.ID, BegunAt: timing.Millis(w.now())}
	if err := w.state.begin(entry); err != nil {
		k.log.Error("releasing the task: the journal cannot be written", "error", err)
		w.stateFailed(err)
		_, _ = k.finish()
		w.sendNow(release(k.lease, stateFailedReason, 0, w.now()).withRequest(k.task))
		return
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(k.ctx))
	defer stop()
	w.running.Go(func() { k.keep(keeping, w.now) })
	w.running.Go(func() { j.sender.run(keeping) })

	k.log.Info("task begun", "context_id", k.task.ContextID, "agent", k.task.AgentSlug, "attempt", k.task.Attempts)
	run := w.runSafely(j)
	w.noteCredentials(j, &run)
	cause, lost := k.finish()
	d := w.outcome(j, run, cause, lost).withRequest(k.task)
	if d == nil {
		stop()
		j.sender.close(w.cfg.FlushWait) // returns at once, because its context has ended
		return
	}
	d.ContextID, d.keeper = k.task.ContextID, k
	// To disk first, so that neither a slow stream nor a crash loses the outcome.
	w.outbox.put(d)
	j.sender.close(w.cfg.FlushWait)
	w.attempt(d)
}

// handleUnstarted reports why work did not begin. A lease that could not be confirmed
// needs no report: it expires, and its task goes to another worker.
func (w *Worker) handleUnstarted(k *leaseKeeper) {
	cause, lost := k.finish()
	switch {
	case lost:
	case errors.Is(cause, attempt.ErrCancelled):
		w.sendNow(completion(k.lease, failure(bloom.ClassCancelled, "The task was cancelled before it was begun", false), w.now()).withRequest(k.task))
	case errors.Is(cause, attempt.ErrDraining):
		w.sendNow(release(k.lease, "the worker is stopping", 0, w.now()).withRequest(k.task))
	}
}

// runSafely calls the runner and turns a panic into a failure of the attempt.
func (w *Worker) runSafely(j *job) (run attempt.Run) {
	defer func() {
		if p := recover(); p != nil {
			j.keeper.log.Error("the runner panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			run = attempt.Run{Completion: failure(bloom.ClassInternal, "The worker's runner crashed; its log has the details", false)}
		}
	}()
	return w.cfg.Runner.Run(j.keeper.ctx, j.keeper.task, func(typ string, data any) {
		j.sender.emit(typ, data)
		if typ == bloom.EventUsage {
			j.keeper.noteUsage(data)
			w.credentialsAccepted(j)
		}
	})
}

// outcome returns what to deliver for a run, nil for nothing.
func (w *Worker) outcome(j *job, run attempt.Run, cause error, lost bool) *delivery {
	k, now := j.keeper, w.now()
	success := run.Release == nil && run.Suspend == nil && run.Completion.Status == bloom.OutcomeSuccess
	switch {
	case success: // even if the lease is lost: the server takes it while the task waits in the queue
		return completion(k.lease, run.Completion, now)
	case lost:
		w.count(func(s *Status) { s.Lost++ })
		w.state.removeEntry(k.lease.ID)
		return nil
	case errors.Is(cause, attempt.ErrLeaseGone):
		// The lease ran out here, but the server may still consider it valid. The
		// journal entry stays: if the lease is returned, the attempt is reported as
		// lost instead of beginning again.
		w.count(func(s *Status) { s.Lost++ })
		return nil
	case errors.Is(cause, attempt.ErrCancelled):
		c := run.Completion
		if run.Release != nil || c.Status == "" {
			c = bloom.Completion{Metrics: c.Metrics, Output: c.Output}
		}
		c.Status, c.ErrorClass, c.Retryable = bloom.OutcomeError, bloom.ClassCancelled, false
		if c.ErrorMessage == nil {
			c.ErrorMessage = new("The task was cancelled")
		}
		return completion(k.lease, c, now)
	case run.Suspend != nil:
		return suspension(k.lease, *run.Suspend, now)
	case run.Release != nil:
		notBefore := w.boundNotBefore(run.Release.NotBefore, now)
		// With an internal error the task's context is not ready; the worker is.
		if at := time.UnixMilli(notBefore); at.After(now) && run.Completion.ErrorClass != bloom.ClassInternal && !j.refusedAlone {
			w.park(j, at, run)
		}
		return release(k.lease, run.Release.Reason, max(notBefore, w.afterPause(j)), now)
	case errors.Is(cause, attempt.ErrDraining):
		return release(k.lease, "the worker is stopping", 0, now)
	}
	return completion(k.lease, run.Completion, now)
}

// implausibleDelay replaces a delay that is longer than bloom.MaxReleaseDelay.
const implausibleDelay = time.Hour

// soonest is the shortest delay of a task that waits for the reset of a rate limit. By this
// machine's clock the reset may have passed already, and every start costs requests.
const soonest = 30 * time.Second

// boundNotBefore returns when a released task may start again, in Unix milliseconds. A
// provider's time that is too far away is a mistake.
func (w *Worker) boundNotBefore(notBefore int64, now time.Time) int64 {
	if notBefore > 0 {
		notBefore = max(notBefore, timing.Millis(now.Add(soonest)))
	}
	if notBefore <= timing.Millis(now.Add(bloom.MaxReleaseDelay)) {
		return notBefore
	}
	w.log.Warn("ignoring an implausible time for the next start", "not_before", notBefore, "delay", implausibleDelay)
	return timing.Millis(now.Add(implausibleDelay))
}

// send writes an outcome to disk and delivers it in the background.
func (w *Worker) send(d *delivery) {
	w.outbox.put(d)
	w.outbox.deliver(w.deliverCtx, d, 0)
}

// sendNow is like send, but makes the first try before it returns.
func (w *Worker) sendNow(d *delivery) {
	w.outbox.put(d)
	w.attempt(d)
}

func (w *Worker) attempt(d *delivery) {
	if !w.outbox.try(w.deliverCtx, d) {
		w.outbox.deliver(w.deliverCtx, d, 1)
	}
}

func (w *Worker) releaseLease(got bloom.LeasedTask, reason string, notBefore int64) {
	w.send(release(got.Lease, reason, notBefore, w.now()).withRequest(got.Task))
}
