package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/bench"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// pollsCmd measures the cost of many waiting workers.
type pollsCmd struct {
	target
	Polls      int           `default:"1000" placeholder:"N" help:"Workers whose long polls wait at once."`
	Registered int           `default:"0" placeholder:"N" help:"Additional workers that register and then stay silent."`
	Duration   time.Duration `short:"d" default:"30s" help:"How long the workers wait."`
	Settle     time.Duration `default:"10s" help:"How long to wait first, until all polls are established."`
	Samples    int           `default:"100" placeholder:"N" help:"Tasks created afterwards, to measure how soon a poll gets each; 0 for none."`
	PID        []int         `placeholder:"PID" help:"Process on this machine whose CPU and memory to measure, with its children (repeatable; Linux)."`
}

// pollWait is how long one poll waits: the maximum that a server allows.
const pollWait = 60 * time.Second

// pollers are the workers of the measurement.
type pollers struct {
	*bench.Site
	answered atomic.Int64
	taken    chan time.Time
}

func (c *pollsCmd) Run(ctx context.Context, out io.Writer) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	p := &pollers{Site: bench.NewSite(api), taken: make(chan time.Time)}
	defer p.CleanUp()
	if err := p.Register(ctx, slices.Repeat([]string{p.Label}, c.Polls+c.Registered), 1); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	polls, polling := errgroup.WithContext(ctx)
	for _, name := range p.Names[:c.Polls] {
		polls.Go(func() error { return p.poll(polling, name) })
	}
	err = c.watch(polling, p, out)
	stop()
	if ended := polls.Wait(); ended != nil {
		err = ended // it ended watch
	}
	return err
}

// poll claims with long polls, as a worker does, and completes what it gets.
func (p *pollers) poll(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		got, err := p.API.Claim(ctx, name, client.Claim{InstanceID: p.Label, Max: 1, Wait: pollWait})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := p.ReleaseOthers(ctx, got.Leases); err != nil {
			return err
		}
		p.answered.Add(1)
		at := time.Now()
		for _, l := range got.Leases {
			if err := p.Complete(ctx, l.Lease); err != nil {
				return err
			}
			select {
			case p.taken <- at:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// watch measures while the workers wait, and then how soon they get a task.
func (c *pollsCmd) watch(ctx context.Context, p *pollers, out io.Writer) error {
	if err := retry.Sleep(ctx, c.Settle); err != nil {
		return err
	}
	before, err := usesOf(c.PID)
	if err != nil {
		return err
	}
	began, answered := time.Now(), p.answered.Load()
	if err := retry.Sleep(ctx, c.Duration); err != nil {
		return err
	}
	after, err := usesOf(c.PID)
	if err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	fmt.Fprintf(out, "%d polls waiting, %d workers registered; %d polls returned in %.0f s\n",
		c.Polls, c.Polls+c.Registered, p.answered.Load()-answered, seconds)
	for i := range after {
		u := after[i].since(before[i], seconds)
		fmt.Fprintf(out, "process %d (%s): %.1f %% of a core, %.0f MB\n", u.PID, u.Name, u.CPUPercent, u.MemoryMB)
	}
	steps := bench.NewSteps("create to start")
	for range c.Samples {
		if err := p.sample(ctx, steps); err != nil {
			return err
		}
	}
	for _, l := range steps.Latencies() {
		fmt.Fprintf(out, "%s: p50 %.1f ms, p99 %.1f ms (%d)\n", l.Name, l.P50, l.P99, l.Count)
	}
	return nil
}

// sample creates a task that any of the polls may get.
func (p *pollers) sample(ctx context.Context, steps *bench.Steps) error {
	began := time.Now()
	if err := p.Submit(ctx, p.Label); err != nil {
		return err
	}
	select {
	case at := <-p.taken:
		steps.Add("create to start", at.Sub(began))
		return nil
	case <-time.After(pollWait):
		return errors.New("no poll received the task")
	case <-ctx.Done():
		return ctx.Err()
	}
}
