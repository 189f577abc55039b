package worker

import (
	"context"
	"errors"
	"time"

	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/attempt"
)

// ErrStillRunning means that running tasks did not stop in time.
var ErrStillRunning = errors.New("the worker ended before its running tasks had stopped")

// Stop stops the worker as the end of Run's context does: it claims nothing more,
// lets running tasks finish within the grace period, and returns from Run.
func (w *Worker) Stop() { w.stopOnce.Do(func() { close(w.stopAsked) }) }

// StopNow stops the worker without the grace period: running tasks are stopped and
// released.
func (w *Worker) StopNow() {
	w.Stop()
	w.stopNowOnce.Do(func() { close(w.stopNow) })
}

// stopSignal returns a context that ends with ctx or when Stop is called.
func (w *Worker) stopSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.stopAsked:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// shutDown lets running tasks finish within the grace period and stops the others,
// releases what a last claim brings, and delivers the outcomes in the outbox.
func (w *Worker) shutDown(endPolls func()) error {
	w.setStopping()
	w.log.Info("stopping: no new tasks are taken", "running", w.count(nil).Running, "grace", w.cfg.Grace)
	var err error
	if !w.awaitRuns(w.cfg.Grace, w.stopNow) {
		running := w.count(nil).Running
		select {
		case <-w.stopNow:
			w.log.Warn("stopping at once: running tasks are stopped and released", "running", running)
		default:
			w.log.Warn("the grace period is over: running tasks are stopped and released", "running", running)
		}
		w.cancelRuns(attempt.ErrDraining)
		if !w.awaitRuns(w.cfg.StopWait, nil) {
			err = ErrStillRunning
		}
	}
	endPolls()
	ctx, cancel := context.WithTimeout(w.deliverCtx, w.cfg.DeliverWait)
	defer cancel()
	w.lastClaim(ctx)
	w.outbox.wake()
	w.outbox.close()
	delivered := make(chan struct{})
	go func() {
		w.outbox.wg.Wait()
		close(delivered)
	}()
	select {
	case <-delivered:
	case <-ctx.Done():
		w.log.Warn("some outcomes were not delivered; the next start delivers them", "undelivered", w.outbox.size())
	}
	return err
}

// awaitRuns reports whether all runs ended within the timeout and before abort was closed.
func (w *Worker) awaitRuns(timeout time.Duration, abort <-chan struct{}) bool {
	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-ended:
		return true
	case <-t.C:
	case <-abort:
	}
	return false
}

func (w *Worker) setStopping() {
	w.mu.Lock()
	w.stop = true
	w.mu.Unlock()
	w.interrupt()
}

func (w *Worker) stopping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stop
}

// lastClaim fetches the leases that an interrupted poll may have been given, so that
// their tasks return to the queue now and not when the leases expire.
func (w *Worker) lastClaim(ctx context.Context) {
	for more := true; more; { // an answer has only as many as fit
		res, err := w.cfg.Client.Claim(ctx, w.cfg.Name, client.Claim{InstanceID: w.state.instance, Held: w.heldNow()})
		more = err == nil && w.takeAll(res.Leases)
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
