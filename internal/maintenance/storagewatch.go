package maintenance

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Defaults of StorageWatch.
const (
	// DefaultStorageEvery is how soon a storage that is back is noticed.
	DefaultStorageEvery = 5 * time.Second
	// storageCheck is how often one that is well is probed, so that health tells the
	// truth also where nothing is uploaded.
	storageCheck = time.Minute
)

// StorageWatchConfig is what NewStorageWatch needs. Refresh and Away are required.
type StorageWatchConfig struct {
	// Refresh probes the object storage and reports whether it has come back.
	Refresh func(context.Context) (back bool, err error)
	// Away reports whether the storage is known to be away.
	Away func() bool
	// Back, when not nil, is called when the storage has come back.
	Back   func()
	Clock  bloom.Clock   // bloom.SystemClock when nil
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultStorageEvery when 0
}

// NewStorageWatch makes the loop that notices that the object storage is back.
func NewStorageWatch(c StorageWatchConfig) *Loop {
	if c.Clock == nil {
		c.Clock = bloom.SystemClock{}
	}
	var last time.Time
	l := newLoop("artifact-storage", cmp.Or(c.Every, DefaultStorageEvery), c.Logger, func(ctx context.Context) (Result, error) {
		now := c.Clock.Now()
		if !c.Away() && now.Sub(last) < storageCheck {
			return Result{}, nil
		}
		last = now
		back, err := c.Refresh(ctx)
		if back && c.Back != nil {
			c.Back()
		}
		return Result{}, err
	})
	l.trouble = slog.LevelDebug // the storage logs it
	return l
}
