package announce

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// logSilence logs a warning each time membridge has been silent for longer than expected (wait
// plus Patience), until stop is called.
func (a *Announcer) logSilence(ctx context.Context, wait time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	began := time.Now()
	var done sync.WaitGroup
	done.Go(func() {
		for retry.Sleep(ctx, wait+a.cfg.Patience) == nil {
			wait = 0
			a.cfg.Log.Warn("still waiting for membridge to answer", slog.String("membridge", a.cfg.Client.URL()),
				slog.Float64("seconds", time.Since(began).Round(time.Second).Seconds()))
		}
	})
	return func() { cancel(); done.Wait() }
}

// logOutcome logs the first of several failures, and the recovery.
func (a *Announcer) logOutcome(ctx context.Context, err error) {
	before := a.failing
	a.failing = err != nil
	switch {
	case ctx.Err() != nil:
	case err != nil && !before && a.cfg.Keyless && forbidden(err):
		a.cfg.Log.Info("membridge requires a key; set MEMBRIDGE_AGENT_KEY to register this worker with it, too", slog.String("membridge", a.cfg.Client.URL()))
	case err != nil && !before:
		a.cfg.Log.Warn(failureMessage(err), slog.Any("error", err))
	case err == nil && before:
		a.cfg.Log.Info("membridge answers again")
	}
}

// forbidden reports whether membridge refuses the key, or that there is none.
func forbidden(err error) bool {
	var e *bloom.Error
	return errors.As(err, &e) && e.Code == bloom.CodeMembridgeForbidden
}

// failureMessage distinguishes a membridge that refuses from one that does not answer.
func failureMessage(err error) string {
	var refused *mbclient.StatusError
	if errors.As(err, &refused) || forbidden(err) {
		return "membridge refuses this worker; retrying"
	}
	return "membridge does not answer; retrying"
}
