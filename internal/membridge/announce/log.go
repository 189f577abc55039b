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

// logSilence says in the log that membridge does not answer for longer than asked, as
// one that hangs does not for the time of several tries; until answered is called.
func (a *Announcer) logSilence(ctx context.Context, asked time.Duration) (answered func()) {
	ctx, cancel := context.WithCancel(ctx)
	began := time.Now()
	var done sync.WaitGroup
	done.Go(func() {
		for retry.Sleep(ctx, asked+a.cfg.Patience) == nil {
			asked = 0
			a.cfg.Log.Warn("still waiting for membridge to answer", slog.String("membridge", a.cfg.Client.URL()),
				slog.Float64("seconds", time.Since(began).Round(time.Second).Seconds()))
		}
	})
	return func() { cancel(); done.Wait() }
}

// logOutcome logs the first failure of several, and their end.
func (a *Announcer) logOutcome(ctx context.Context, err error) {
	before := a.failing
	a.failing = err != nil
	switch {
	case ctx.Err() != nil:
	case err != nil && !before:
		a.cfg.Log.Warn(trouble(err), slog.Any("error", err))
	case err == nil && before:
		a.cfg.Log.Info("membridge answers again")
	}
}

// trouble distinguishes a membridge that refuses from one that does not answer.
func trouble(err error) string {
	var refused *mbclient.StatusError
	var e *bloom.Error
	if errors.As(err, &refused) || errors.As(err, &e) && e.Code == bloom.CodeMembridgeForbidden {
		return "membridge refuses this worker; it is asked again and again"
	}
	return "membridge does not answer; it is asked again and again"
}
