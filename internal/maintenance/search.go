package maintenance

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// DefaultSearchEvery is how often the loop looks for tasks whose texts have changed.
const DefaultSearchEvery = 500 * time.Millisecond

// SearchConfig is what NewSearch needs. Store and Read are required.
type SearchConfig struct {
	Store  contract.SearchStore
	Read   contract.ReadContent
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultSearchEvery when 0
}

// NewSearch makes the loop that updates the search index. Like Retention it pauses after
// each batch, so that it slows down under load.
func NewSearch(c SearchConfig) *Loop {
	return newLoop("search", cmp.Or(c.Every, DefaultSearchEvery), c.Logger, func(ctx context.Context) (Result, error) {
		for more := true; more; {
			var err error
			began := time.Now()
			if _, more, err = c.Store.IndexTasks(ctx, c.Read); err != nil {
				return Result{}, err
			}
			if more {
				if err := pause(ctx, time.Since(began)); err != nil {
					return Result{}, err
				}
			}
		}
		return Result{}, nil
	})
}
