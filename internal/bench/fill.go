package bench

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// Fill creates many tasks, to measure with a full store.
type Fill struct {
	Count   int // tasks
	Clients int // at once
	Queued  int // percent that stay queued; the others end
	// Progress, if not nil, is called with the number of tasks after every thousandth.
	// Many goroutines call it.
	Progress func(created int64)
}

// fillLabel is a label that no worker has, so queued tasks stay queued.
const fillLabel = "bench-fill"

// Server creates tasks through a server's API and cancels those that do not stay
// queued.
func (f Fill) Server(ctx context.Context, api *client.Client) error {
	return f.fill(ctx, func(ctx context.Context, _, n int) error {
		task, err := api.Submit(ctx, bloom.TaskSpec{ContextID: fillLabel, AgentSlug: "bench",
			Prompt: "Fill the store.", Priority: -1000, Labels: []string{fillLabel}})
		if err == nil && n%100 >= f.Queued {
			_, err = api.Cancel(ctx, task.ID)
		}
		return err
	})
}

// Store writes whole lifecycles to the store of a stopped server, which is much faster.
func (f Fill) Store(ctx context.Context, store bloom.Store) (err error) {
	h, err := newHistory(ctx, store, f.Clients, f.Queued)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	return f.fill(ctx, h.task)
}

func (f Fill) fill(ctx context.Context, one func(ctx context.Context, client, n int) error) error {
	var created atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	turns := newQuota(f.Count)
	for i := range f.Clients {
		group.Go(func() error {
			for ctx.Err() == nil && turns.take() {
				n := created.Add(1)
				if err := one(ctx, i, int(n)); err != nil {
					return err
				}
				if f.Progress != nil && n%1000 == 0 {
					f.Progress(n)
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}
