package maintenance

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// WatchConfig is what NewWatch needs. Check is required.
type WatchConfig struct {
	// Check sends a small request to the control plane, whose client records the result.
	Check func(ctx context.Context) error
	// Idle reports whether another loop of this server calls the control plane anyway. It
	// may be nil.
	Idle   func() bool
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultSyncEvery when 0
}

// NewWatch makes the loop that checks the control plane's health on a server that leaves the
// worker sync to another replica. Without it, that server would show the result of an
// arbitrary earlier call.
func NewWatch(c WatchConfig) *Loop {
	l := newLoop("membridge-watch", cmp.Or(c.Every, DefaultSyncEvery), c.Logger, func(ctx context.Context) (Result, error) {
		if c.Idle != nil && c.Idle() {
			return Result{}, nil
		}
		return Result{}, c.Check(ctx)
	})
	l.failureLevel = slog.LevelWarn
	return l
}
