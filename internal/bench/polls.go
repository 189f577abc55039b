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

// Polls measures what it costs to have many workers waiting.
type Polls struct {
	Polls      int           // workers whose long polls wait at once
	Registered int           // workers registered besides, which say nothing more
	Duration   time.Duration // how long nothing happens but waiting
	Settle     time.Duration // how long the first looks may take before
	Samples    int           // tasks posted then, to measure how soon one of the polls has each
	PID        []int         // processes on this machine to measure, with their children; Linux only
}

// PollsReport is what waiting costs.
type PollsReport struct {
	Storage    string       `json:"storage"`
	Polls      int          `json:"polls"`
	Registered int          `json:"registered"`
	Seconds    float64      `json:"seconds"`
	Answered   int64        `json:"polls_answered"`
	Processes  []ProcessUse `json:"processes"`
	Steps      []Latency    `json:"latencies"`
}

// pollWait is how long one poll waits: as long as a server allows.
const pollWait = 60 * time.Second

// pollers are the workers of the measurement.
type pollers struct {
	*site
	answered atomic.Int64
	taken    chan time.Time
	slots    int // tasks that each takes at once; 0: 1
}

// Measure runs against the server of api.
func (m Polls) Measure(ctx context.Context, api *client.Client) (*PollsReport, error) {
	health, err := api.Health(ctx)
	if err != nil {
		return nil, err
	}
	p := &pollers{site: newSite(api), taken: make(chan time.Time)}
	defer p.dismiss()
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
		err = ended // it made the watching end
	}
	return report, err
}

// registerWith makes n workers known that take so many tasks at once.
func (p *pollers) registerWith(ctx context.Context, n, slots int) error {
	p.slots = slots
	return p.register(ctx, n, 0)
}

// register makes n workers that poll known, and others, many at a time.
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

// poll waits again and again, as a worker does.
func (p *pollers) poll(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		got, err := p.api.Claim(ctx, name, client.Claim{InstanceID: p.label, Max: 1, Wait: pollWait})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := p.returnOthers(ctx, got.Leases); err != nil {
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

// sample posts a task that any of the polls may take.
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
		return errors.New("none of the polls got a task")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dismiss forgets the workers, many at a time.
func (p *pollers) dismiss() {
	ctx, done := context.WithTimeout(context.Background(), 6*leaveWait)
	defer done()
	p.callOff(ctx)
	var group errgroup.Group
	group.SetLimit(16)
	for _, name := range p.names {
		group.Go(func() error {
			_ = p.api.RemoveWorker(ctx, name) // what stays behind goes offline by itself
			return nil
		})
	}
	_ = group.Wait()
}
