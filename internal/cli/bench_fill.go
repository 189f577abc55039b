package cli

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
)

type benchFillCmd struct {
	remote
	Count   int `name:"count" short:"n" default:"100000" placeholder:"N" help:"Tasks to create."`
	Clients int `name:"clients" short:"c" default:"32" placeholder:"N" help:"Clients at once."`
	Queued  int `name:"queued" default:"10" placeholder:"PERCENT" help:"Share that stays queued; the others are cancelled."`
}

// Run creates tasks that no worker takes: their label is nobody's.
func (c *benchFillCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.Count < 1 || c.Clients < 1 || c.Queued < 0 || c.Queued > 100 {
		return usagef("--count and --clients must be greater than 0, --queued between 0 and 100")
	}
	var made atomic.Int64
	began := time.Now()
	group, ctx := errgroup.WithContext(inv.ctx)
	turns := newQuota(c.Count)
	for range c.Clients {
		group.Go(func() error {
			for ctx.Err() == nil && turns.take() {
				task, err := api.Submit(ctx, bloom.TaskSpec{ContextID: "bench-fill", AgentSlug: "bench",
					Prompt: "Take up room.", Priority: -1000, Labels: []string{"bench-fill"}})
				if err != nil {
					return err
				}
				n := made.Add(1)
				if int(n%100) >= c.Queued {
					if _, err := api.Cancel(ctx, task.ID); err != nil {
						return err
					}
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
