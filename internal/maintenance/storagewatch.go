package maintenance

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom/internal/timing"
)

// Defaults of StorageWatch.
const (
	// DefaultStorageEvery is how often an unavailable storage is probed.
	DefaultStorageEvery = 5 * time.Second
	// storageCheck is how often an available storage is probed, so that its health is known
	// even if nothing is uploaded.
	storageCheck = time.Minute
)

// StorageWatchConfig is what NewStorageWatch needs. Refresh and Unavailable are required.
type StorageWatchConfig struct {
	// Refresh probes the object storage and reports whether it is available again.
	Refresh func(context.Context) (back bool, err error)
	// Unavailable reports whether the storage is known to be unavailable.
	Unavailable func() bool
	// Back, if not nil, is called when the storage is available again.
	Back   func()
	Clock  timing.Clock  // timing.System when nil
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultStorageEvery when 0
}

// NewStorageWatch makes the loop that detects when the object storage is available again.
func NewStorageWatch(c StorageWatchConfig) *Loop {
	if c.Clock == nil {
		c.Clock = timing.System{}
	}
	var last time.Time
	l := newLoop("artifact-storage", cmp.Or(c.Every, DefaultStorageEvery), c.Logger, func(ctx context.Context) (Result, error) {
		now := c.Clock.Now()
		if !c.Unavailable() && now.Sub(last) < storageCheck {
			return Result{}, nil
		}
		last = now
		back, err := c.Refresh(ctx)
		if back && c.Back != nil {
			c.Back()
		}
		return Result{}, err
	})
	l.failureLevel = slog.LevelDebug // the storage logs it
	return l
}
