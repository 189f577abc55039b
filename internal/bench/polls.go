package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// Polls measures the cost of many waiting workers.
type Polls struct {
	Polls      int           // workers whose long polls wait at once
	Registered int           // additional workers that register and then stay silent
	Duration   time.Duration // how long the workers wait
	Settle     time.Duration // how long to wait first, until all polls are established
	Samples    int           // tasks created afterwards, to measure how soon a poll gets each
	PID        []int         // processes on this machine to measure, with their children; Linux only
}

// PollsReport is the cost of waiting.
type PollsReport struct {
	Storage    string       `json:"storage"`
	Polls      int          `json:"polls"`
	Registered int          `json:"registered"`
	Seconds    float64      `json:"seconds"`
	Answered   int64        `json:"polls_answered"`
	Processes  []ProcessUse `json:"processes"`
	Steps      []Latency    `json:"latencies"`
}

// pollWait is how long one poll waits: the maximum that a server allows.
const pollWait = 60 * time.Second

// pollers are the workers of the measurement.
type pollers struct {
	*site
	answered atomic.Int64
	taken    chan time.Time
	slots    int // tasks per worker at once; 0: 1
}

// Measure runs against the server of api.
func (m Polls) Measure(ctx context.Context, api *client.Client) (*PollsReport, error) {
	health, err := api.Health(ctx)
	if err != nil {
		return nil, err
	}
	p := &pollers{site: newSite(api), taken: make(chan time.Time)}
	defer p.removeWorkers()
	if err := p.register(ctx, m.Polls, m.Registered); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	polls, polling := errgroup.WithContext(ctx)
	for _, name := range p.names[:m.Polls] {
		polls.Go(func() error { return p.poll(polling, name) })
	}
	report := &PollsReport{Storage: health.Storage, Polls: m.Polls, Registered: m.Polls + m.Registered}
	err = m.watch(polling, p, report)
	stop()
	if ended := polls.Wait(); ended != nil {
		err = ended // it ended watch
	}
	return report, err
}

// registerWith registers n workers with the given number of slots.
func (p *pollers) registerWith(ctx context.Context, n, slots int) error {
	p.slots = slots
	return p.register(ctx, n, 0)
}

// register registers n workers that poll and others that do not, in parallel.
func (p *pollers) register(ctx context.Context, n, others int) error {
	p.names = make([]string, n+others)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range p.names {
		p.names[i] = fmt.Sprintf("%s-%d", p.label, i)
		group.Go(func() error {
			_, err := p.api.RegisterWorker(ctx, bloom.WorkerSpec{Name: p.names[i], Status: bloom.WorkerOnline, InstallMethod: "bloom bench",
				InstanceID: p.label, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: max(1, p.slots), Labels: []string{p.label}}})
			return err
		})
	}
	return group.Wait()
}

// poll claims with long polls, as a worker does, and completes what it gets.
func (p *pollers) poll(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		got, err := p.api.Claim(ctx, name, client.Claim{InstanceID: p.label, Max: 1, Wait: pollWait})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := p.releaseOthers(ctx, got.Leases); err != nil {
			return err
		}
		p.answered.Add(1)
		at := time.Now()
		for _, l := range got.Leases {
			if err := p.complete(ctx, l.Lease); err != nil {
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

func (m Polls) watch(ctx context.Context, p *pollers, report *PollsReport) error {
	if err := retry.Sleep(ctx, m.Settle); err != nil {
		return err
	}
	before, err := usesOf(m.PID)
	if err != nil {
		return err
	}
	began, answered := time.Now(), p.answered.Load()
	if err := retry.Sleep(ctx, m.Duration); err != nil {
		return err
	}
	after, err := usesOf(m.PID)
	if err != nil {
		return err
	}
	report.Seconds, report.Answered = time.Since(began).Seconds(), p.answered.Load()-answered
	report.Processes = []ProcessUse{}
	for i := range after {
		report.Processes = append(report.Processes, after[i].since(before[i], report.Seconds))
	}
	steps := newSteps("create to start")
	for range m.Samples {
		if err := p.sample(ctx, steps); err != nil {
			return err
		}
	}
	report.Steps = steps.latencies()
	return nil
}

// sample creates a task that any of the polls may get.
func (p *pollers) sample(ctx context.Context, steps *steps) error {
	began := time.Now()
	if err := p.submit(ctx, p.label); err != nil {
		return err
	}
	select {
	case at := <-p.taken:
		steps.add("create to start", at.Sub(began))
		return nil
	case <-time.After(pollWait):
		return errors.New("no poll received the task")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// removeWorkers cancels unfinished tasks and removes the workers, in parallel.
func (p *pollers) removeWorkers() {
	ctx, done := context.WithTimeout(context.Background(), 6*cleanUpTimeout)
	defer done()
	p.cancelWaiting(ctx)
	var group errgroup.Group
	group.SetLimit(16)
	for _, name := range p.names {
		group.Go(func() error {
			_ = p.api.RemoveWorker(ctx, name) // a worker that remains goes offline after a while
			return nil
		})
	}
	_ = group.Wait()
}
