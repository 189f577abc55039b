package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// spec returns the worker's registration as of now, and notes what it reports.
func (w *Worker) spec() bloom.WorkerSpec {
	spec := w.cfg.About
	spec.Name, spec.Capabilities, spec.InstanceID = w.cfg.Name, w.cfg.Capabilities, w.state.instance
	spec.Status = bloom.WorkerOnline
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cfg.Agents != nil {
		spec.Agents = w.agents
	}
	if w.cfg.Setup != nil {
		spec.Setup = new(w.setup)
	}
	w.reportedAgents, w.reportedSetup = w.agents, w.setup
	w.reportedReady, w.reportedStateErr = w.readyErr == nil, w.stateErr != nil
	spec.Capabilities.ClaudeCLI = spec.Capabilities.ClaudeCLI && w.reportedReady
	if w.reportedStateErr {
		spec.Status = bloom.WorkerError
	}
	spec.Draining = w.controlDrain
	w.reportedPause = w.paused()
	spec.Pause = w.reportedPause
	return spec
}

// register registers the worker, and retries for as long as the server is
// unavailable. At the start a refused key is an error at once; later the key may
// be being rotated, so it is retried.
func (w *Worker) register(ctx context.Context, atStart bool) error {
	for n := 0; ; n++ {
		spec := w.spec() // it may have changed since the last try
		answer, err := w.cfg.Client.RegisterWorker(ctx, spec)
		if err == nil {
			w.mu.Lock()
			w.reportedDrain, w.serverDrain = spec.Draining, answer.Draining
			w.mu.Unlock()
			w.connected()
			if w.cfg.OnMembridge != nil && answer.MembridgeURL != "" {
				w.cfg.OnMembridge(answer.MembridgeURL)
			}
			w.log.Info("registered", "new", answer.Created, "max_concurrency", spec.Capabilities.MaxConcurrency, "labels", spec.Capabilities.Labels)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if refused(err) || atStart && denied(err) {
			return fmt.Errorf("the server refused to register worker %q: %w", w.cfg.Name, err)
		}
		w.disconnected(err)
		if retry.Sleep(ctx, pollRetry.Wait(n, err)) != nil {
			return ctx.Err()
		}
	}
}

// offlineTimeout limits the last request to the server.
const offlineTimeout = 3 * time.Second

// reportOffline registers the worker as offline, so that the server need not wait for
// its heartbeats to time out. It does nothing when the last request failed.
func (w *Worker) reportOffline(ctx context.Context) {
	if w.cfg.OnStopped != nil {
		w.cfg.OnStopped()
	}
	if !w.Status().Connected {
		return
	}
	spec := w.spec()
	spec.Status, spec.Draining = bloom.WorkerOffline, nil
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), offlineTimeout)
	defer cancel()
	if _, err := w.cfg.Client.RegisterWorker(last, spec); err != nil {
		w.log.Debug("the worker could not be reported offline", "error", err)
	}
}

func denied(err error) bool {
	k := bloom.KindOf(err)
	return k == bloom.KindUnauthorized || k == bloom.KindForbidden
}

// connected records that a request succeeded.
func (w *Worker) connected() {
	w.mu.Lock()
	back := !w.status.Connected && w.status.LastError != ""
	w.status.Connected, w.status.LastError = true, ""
	w.mu.Unlock()
	if back {
		w.log.Info("the server is available again")
	}
	if back || w.outbox.size() > 0 {
		w.outbox.wake()
	}
}

// reasonEvery bounds how often another reason is logged why the server cannot be reached: the
// text of some differs with every attempt.
const reasonEvery = time.Minute

// disconnected records that a request failed. The first failure is logged, and later another
// reason: an outage may begin with a restart and continue with an expired certificate.
func (w *Worker) disconnected(err error) {
	reason, now := err.Error(), w.now()
	w.mu.Lock()
	report := w.status.LastError == "" || reason != w.failure.reason && now.Sub(w.failure.logged) >= reasonEvery
	w.status.Connected, w.status.LastError = false, reason
	if report {
		w.failure.reason, w.failure.logged = reason, now
	}
	w.mu.Unlock()
	if report {
		w.log.Warn("cannot claim tasks; running tasks continue while their leases last", "error", err)
	}
}
