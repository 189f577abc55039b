package maintenance

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// WatchConfig is what NewWatch needs. Check is required.
type WatchConfig struct {
	// Check asks the control plane something small; what comes of it is for whoever
	// made the client to remember.
	Check func(ctx context.Context) error
	// Idle reports that another loop asks anyway. Nil: nobody does.
	Idle   func() bool
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultSyncEvery when 0
}

// NewWatch makes the loop by which a server that leaves the worker sync to another
// one knows all the same how the control plane is: without it, it would go on
// showing how the last call fared that somebody happened to make through it.
func NewWatch(c WatchConfig) *Loop {
	l := newLoop("membridge-watch", cmp.Or(c.Every, DefaultSyncEvery), c.Logger, func(ctx context.Context) (Result, error) {
		if c.Idle != nil && c.Idle() {
			return Result{}, nil
		}
		return Result{}, c.Check(ctx)
	})
	l.trouble = slog.LevelWarn
	return l
}
