// Package bench puts load on a running server through its API and measures the result.
// It does not depend on the server's implementation. What it exports besides the two
// measurements is for those in the module bench.
package bench

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// Run measures whole lifecycles: the same client creates, leases, renews and completes
// each task. Then it measures single steps.
type Run struct {
	APIKey     string
	Clients    int           // at once
	Duration   time.Duration // how long lifecycles run
	Count      int           // number of lifecycles; 0: as many as fit in Duration
	Samples    int           // measurements of each latency
	Lifecycles bool          // only lifecycles, no single steps
}

// RunReport is the result of a Run measurement. Durations are milliseconds.
type RunReport struct {
	Server     string    `json:"server"`
	Storage    string    `json:"storage"`
	Tasks      int64     `json:"tasks_before"`
	Clients    int       `json:"clients"`
	Lifecycles int       `json:"lifecycles"`
	Seconds    float64   `json:"seconds"`
	PerSecond  float64   `json:"lifecycles_per_second"`
	Steps      []Latency `json:"latencies"`
}

// Measure runs against the server of api.
func (r Run) Measure(ctx context.Context, api *client.Client) (*RunReport, error) {
	health, err := api.Health(ctx)
	if err != nil {
		return nil, err
	}
	before, err := api.Stats(ctx)
	if err != nil {
		return nil, err
	}
	report := &RunReport{Server: api.BaseURL(), Storage: health.Storage, Tasks: before.Tasks.Total, Clients: r.Clients}
	site := NewSite(api)
	defer site.CleanUp()
	labels := slices.Repeat([]string{site.Label}, (r.Clients+bloom.MaxConcurrency-1)/bloom.MaxConcurrency)
	if err := site.Register(ctx, append(labels, site.claimLabel()), bloom.MaxConcurrency); err != nil {
		return nil, err
	}
	if err := r.lifecycles(ctx, site, report); err != nil || r.Lifecycles {
		return report, err
	}
	return report, r.latencies(ctx, site, report)
}

func (r Run) lifecycles(whole context.Context, site *Site, report *RunReport) error {
	steps := NewSteps("create", "lease", "heartbeat", "complete", "lifecycle")
	ctx, done := context.WithCancel(whole)
	defer done()
	if r.Count == 0 {
		ctx, done = context.WithTimeout(ctx, r.Duration)
		defer done()
	}
	var begun atomic.Int64
	began := time.Now()
	var group errgroup.Group
	for i := range r.Clients {
		group.Go(func() error {
			wire, err := Dial(ctx, site.API.BaseURL(), r.APIKey)
			if err != nil {
				return err
			}
			defer wire.Close()
			for ctx.Err() == nil && (r.Count == 0 || begun.Add(1) <= int64(r.Count)) {
				// Complete a started lifecycle even after ctx ends, so that no task remains.
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
	if whole.Err() != nil {
		return whole.Err()
	}
	report.Seconds = time.Since(began).Seconds()
	report.Lifecycles = steps.count("lifecycle")
	report.PerSecond = float64(report.Lifecycles) / report.Seconds
	report.Steps = append(report.Steps, steps.Latencies()...)
	return nil
}

func (r Run) latencies(ctx context.Context, site *Site, report *RunReport) error {
	steps := NewSteps("create to start", "claim one of many", "list 100", "list 100 by status", "list 100, page 10", "stats")
	if err := site.startLatency(ctx, r.Samples, steps); err != nil {
		return err
	}
	if err := site.claims(ctx, r.Samples, steps); err != nil {
		return err
	}
	for range r.Samples {
		if err := site.reads(ctx, steps); err != nil {
			return err
		}
	}
	report.Steps = append(report.Steps, steps.Latencies()...)
	return nil
}
