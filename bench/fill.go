package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// fillCmd creates many tasks, to measure with a full store.
type fillCmd struct {
	target
	Count   int    `short:"n" default:"100000" placeholder:"N" help:"Tasks to create."`
	Clients int    `short:"c" default:"32" placeholder:"N" help:"Clients at once."`
	Queued  int    `default:"5" placeholder:"PERCENT" help:"Share of tasks that stay queued; the others end."`
	DataDir string `placeholder:"DIR" help:"Fill the data directory of a stopped server directly: whole lifecycles, and much faster."`
}

// fillLabel is a label that no worker has, so queued tasks stay queued.
const fillLabel = "bench-fill"

func (c *fillCmd) Run(ctx context.Context, out io.Writer) error {
	fill := c.server
	if c.DataDir != "" {
		fill = c.folder
	}
	began := time.Now()
	if err := fill(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Fprintf(out, "%d tasks in %s (%.0f/s)\n", c.Count, took.Round(time.Millisecond), float64(c.Count)/took.Seconds())
	return nil
}

// server creates tasks through a server's API and cancels those that do not stay queued.
func (c *fillCmd) server(ctx context.Context) error {
	api, err := c.unlimited(ctx)
	if err != nil {
		return err
	}
	return c.each(ctx, func(ctx context.Context, _, n int) error {
		task, err := api.Submit(ctx, bloom.TaskSpec{ContextID: fillLabel, AgentSlug: "bench",
			Prompt: "Fill the store.", Priority: -1000, Labels: []string{fillLabel}})
		if err == nil && n%100 >= c.Queued {
			_, err = api.Cancel(ctx, task.ID)
		}
		return err
	})
}

// folder writes whole lifecycles to the store of a stopped server.
func (c *fillCmd) folder(ctx context.Context) (err error) {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(c.DataDir, "bloom.db")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	h, err := newHistory(ctx, store, c.Clients, c.Queued)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	return c.each(ctx, h.task)
}

// each calls one for each task, from all clients.
func (c *fillCmd) each(ctx context.Context, one func(ctx context.Context, client, n int) error) error {
	var begun atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for i := range c.Clients {
		group.Go(func() error {
			for n := begun.Add(1); n <= int64(c.Count) && ctx.Err() == nil; n = begun.Add(1) {
				if err := one(ctx, i, int(n)); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}
