package maintenance

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// DefaultKeyUseEvery is how often the use of keys is recorded.
const DefaultKeyUseEvery = 15 * time.Second

// KeyUseConfig is what KeyUse needs. Flush is required.
type KeyUseConfig struct {
	// Flush records which keys and sessions were used since the last call, and returns
	// their number.
	Flush  func(ctx context.Context) (int, error)
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultKeyUseEvery when 0
}

// NewKeyUse makes the loop that records when keys were last used, so that requests need not
// write it.
func NewKeyUse(c KeyUseConfig) *Loop {
	return newLoop("key-use", cmp.Or(c.Every, DefaultKeyUseEvery), c.Logger, func(ctx context.Context) (Result, error) {
		n, err := c.Flush(ctx)
		return Result{Changed: n}, err
	})
}
