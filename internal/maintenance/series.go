package maintenance

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// DefaultSeriesEvery is how often the queue is sampled.
const DefaultSeriesEvery = time.Minute

// SeriesConfig is what Series needs. Store is required.
type SeriesConfig struct {
	Store  contract.SeriesStore
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultSeriesEvery when 0
}

// NewSeries makes the loop that samples the queue for the time series, merges old minutes
// into hours, and removes old hours.
func NewSeries(c SeriesConfig) *Loop {
	return newLoop("series", cmp.Or(c.Every, DefaultSeriesEvery), c.Logger, func(ctx context.Context) (Result, error) {
		return Result{}, c.Store.KeepSeries(ctx)
	})
}
