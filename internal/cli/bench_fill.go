package cli

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
)

type benchFillCmd struct {
	remote
	Count   int    `name:"count" short:"n" default:"100000" placeholder:"N" help:"Tasks to create."`
	Clients int    `name:"clients" short:"c" default:"32" placeholder:"N" help:"Clients at once."`
	Queued  int    `name:"queued" default:"5" placeholder:"PERCENT" help:"Share that stays queued; the others have ended."`
	DataDir string `name:"data-dir" placeholder:"DIR" help:"Fill the data folder of a server that is stopped: whole lifecycles, and much faster."`
}

// fillLabel is nobody's: no worker takes what waits.
const fillLabel = "bench-fill"

// Run fills a server through its API with tasks that were queued and cancelled,
// or a stopped one's store with tasks that went their whole way.
func (c *benchFillCmd) Run(inv *invocation) (err error) {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.Count < 1 || c.Clients < 1 || c.Queued < 0 || c.Queued > 100 {
		return usagef("--count and --clients must be greater than 0, --queued between 0 and 100")
	}
	one := func(ctx context.Context, _, n int) error {
		task, err := api.Submit(ctx, bloom.TaskSpec{ContextID: fillLabel, AgentSlug: "bench",
			Prompt: "Take up room.", Priority: -1000, Labels: []string{fillLabel}})
		if err == nil && n%100 >= c.Queued {
			_, err = api.Cancel(ctx, task.ID)
		}
		return err
	}
	if c.DataDir != "" {
		history, opening := openHistory(inv.ctx, c.DataDir, c.Clients, c.Queued)
		if opening != nil {
			return opening
		}
		defer func() { err = errors.Join(err, history.close()) }()
		one = history.task
	}
	return c.fill(inv, one)
}

func (c *benchFillCmd) fill(inv *invocation, one func(ctx context.Context, client, n int) error) error {
	var made atomic.Int64
	began := time.Now()
	group, ctx := errgroup.WithContext(inv.ctx)
	turns := newQuota(c.Count)
	for i := range c.Clients {
		group.Go(func() error {
			for ctx.Err() == nil && turns.take() {
				n := made.Add(1)
				if err := one(ctx, i, int(n)); err != nil {
					return err
				}
				if inv.ErrTerminal && n%1000 == 0 {
					fmt.Fprintf(inv.Err, "\r%s of %s", thousands(n), thousands(int64(c.Count)))
				}
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return interrupted(inv, err)
	}
	took := time.Since(began)
	if c.JSON {
		return writeJSON(inv.Out, map[string]any{"created": made.Load(), "seconds": took.Seconds()})
	}
	inv.say("%s tasks in %s (%.0f/s)", thousands(made.Load()), span(took), float64(made.Load())/took.Seconds())
	return nil
}
