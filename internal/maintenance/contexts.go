package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"
)

// DefaultFillEvery is how often FillContexts looks for tasks without a context, which costs
// nothing once there are none.
const DefaultFillEvery = time.Minute

// Filling is what FillContexts needs of a store.
type Filling interface {
	FillContexts(ctx context.Context) (more bool, err error)
}

// FillContextsConfig is what FillContexts needs. Store is required.
type FillContextsConfig struct {
	Store  Filling
	Logger *slog.Logger  // discards when nil
	Every  time.Duration // DefaultFillEvery when 0
}

// NewFillContexts makes the loop that adds tasks to their contexts which were created before
// the server stored contexts. It works in small batches with pauses, as Retention does.
func NewFillContexts(c FillContextsConfig) *Loop {
	return newLoop("contexts", cmp.Or(c.Every, DefaultFillEvery), c.Logger, func(ctx context.Context) (res Result, err error) {
		for more := true; more && err == nil; {
			began := time.Now()
			if more, err = c.Store.FillContexts(ctx); err == nil && more {
				res.Changed++
				err = pause(ctx, pauseFactor*time.Since(began))
			}
		}
		if res.Changed > 0 {
			res.Detail = fmt.Sprintf("added older tasks to their contexts in %d batches", res.Changed)
		}
		return res, err
	})
}
