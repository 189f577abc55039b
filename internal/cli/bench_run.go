package cli

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

type benchRunCmd struct {
	remote
	Clients  int           `name:"clients" short:"c" default:"16" placeholder:"N" help:"Clients at once."`
	Duration time.Duration `name:"duration" short:"d" default:"10s" help:"How long lifecycles run."`
	Count    int           `name:"count" short:"n" placeholder:"N" help:"Run this many lifecycles instead of a duration."`
	Samples  int           `name:"samples" default:"200" placeholder:"N" help:"Measurements of each latency."`
	Skip     bool          `name:"lifecycles-only" help:"Leave out start latency, lists, claim and stats."`
}

// benchReport is what a measurement came to. Durations are milliseconds.
type benchReport struct {
	Server     string         `json:"server"`
	Storage    string         `json:"storage"`
	Tasks      int64          `json:"tasks_before"`
	Clients    int            `json:"clients"`
	Lifecycles int            `json:"lifecycles"`
	Seconds    float64        `json:"seconds"`
	PerSecond  float64        `json:"lifecycles_per_second"`
	Steps      []benchLatency `json:"latencies"`
}

func (c *benchRunCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.Clients < 1 || c.Samples < 1 || c.Count < 0 || c.Duration <= 0 {
		return usagef("--clients, --samples and --duration must be greater than 0")
	}
	report, err := c.measure(inv, api)
	return c.shown(inv, report, err)
}

func (c *benchRunCmd) measure(inv *invocation, api *client.Client) (*benchReport, error) {
	health, err := api.Health(inv.ctx)
	if err != nil {
		return nil, err
	}
	before, err := api.Stats(inv.ctx)
	if err != nil {
		return nil, err
	}
	report := &benchReport{Server: api.BaseURL(), Storage: health.Storage, Tasks: before.Tasks.Total, Clients: c.Clients}
	site := newBenchSite(api)
	defer site.leave()
	if err := site.hire(inv.ctx, (c.Clients+bloom.MaxConcurrency-1)/bloom.MaxConcurrency); err != nil {
		return nil, err
	}
	if err := c.lifecycles(inv, site, report); err != nil {
		return nil, err
	}
	if c.Skip {
		return report, nil
	}
	return report, c.latencies(inv, site, report)
}

func (c *benchRunCmd) lifecycles(inv *invocation, site *benchSite, report *benchReport) error {
	steps := newBenchSteps("create", "lease", "heartbeat", "complete", "lifecycle")
	ctx, done := context.WithCancel(inv.ctx)
	defer done()
	if c.Count == 0 {
		ctx, done = context.WithTimeout(ctx, c.Duration)
		defer done()
	}
	quota := newQuota(c.Count)
	began := time.Now()
	var group errgroup.Group
	for i := range c.Clients {
		group.Go(func() error {
			wire, err := dialBench(ctx, site.api.BaseURL(), string(c.APIKey))
			if err != nil {
				return err
			}
			defer wire.close()
			for ctx.Err() == nil && quota.take() {
				// A lifecycle that has begun is ended, so that nothing stays behind.
				if err := site.lifecycle(wire, i/bloom.MaxConcurrency, steps); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if inv.ctx.Err() != nil {
		return inv.ctx.Err()
	}
	report.Seconds = time.Since(began).Seconds()
	report.Lifecycles = steps.count("lifecycle")
	report.PerSecond = float64(report.Lifecycles) / report.Seconds
	report.Steps = append(report.Steps, steps.latencies()...)
	return nil
}

func (c *benchRunCmd) latencies(inv *invocation, site *benchSite, report *benchReport) error {
	steps := newBenchSteps("create to start", "claim one of many", "list 100", "list 100 by status", "list 100, page 10", "stats")
	if err := site.startLatency(inv.ctx, c.Samples, steps); err != nil {
		return err
	}
	if err := site.claims(inv.ctx, c.Samples, steps); err != nil {
		return err
	}
	for range c.Samples {
		if err := site.reads(inv.ctx, steps); err != nil {
			return err
		}
	}
	report.Steps = append(report.Steps, steps.latencies()...)
	return nil
}

func (r *benchReport) print(inv *invocation) error {
	p := inv.outPainter()
	fmt.Fprintf(inv.Out, "%s, %s, %s tasks in the store before\n", r.Server, r.Storage, thousands(r.Tasks))
	fmt.Fprintf(inv.Out, "%s\n\n", p.paint(styleBold, fmt.Sprintf("%.0f lifecycles/s with %s (%s in %.1fs)",
		r.PerSecond, plural(int64(r.Clients), "client"), thousands(int64(r.Lifecycles)), r.Seconds)))
	t := newTable("STEP", "COUNT", "P50", "P95", "P99", "MAX")
	for _, l := range r.Steps {
		t.row(l.Name, thousands(int64(l.Count)), ms(l.P50), ms(l.P95), ms(l.P99), ms(l.Max))
	}
	return t.print(inv.Out, p)
}

func ms(v float64) string { return fmt.Sprintf("%.2f ms", v) }
