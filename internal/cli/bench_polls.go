package cli

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

type benchPollsCmd struct {
	remote
	Polls      int           `name:"polls" default:"1000" placeholder:"N" help:"Workers whose long polls wait at once."`
	Registered int           `name:"registered" default:"0" placeholder:"N" help:"Workers registered besides, which say nothing more."`
	Duration   time.Duration `name:"duration" short:"d" default:"30s" help:"How long nothing happens but waiting."`
	Settle     time.Duration `name:"settle" default:"10s" help:"How long the first looks may take before."`
	Samples    int           `name:"samples" default:"100" placeholder:"N" help:"Tasks posted then, to measure how soon one of the polls has each; 0 for none."`
	PID        []int         `name:"pid" placeholder:"PID" help:"Process on this machine whose CPU and memory to measure, with its children (repeatable; Linux)."`
}

// pollsReport is what waiting costs.
type pollsReport struct {
	Storage    string         `json:"storage"`
	Polls      int            `json:"polls"`
	Registered int            `json:"registered"`
	Seconds    float64        `json:"seconds"`
	Answered   int64          `json:"polls_answered"`
	Processes  []processUse   `json:"processes"`
	Steps      []benchLatency `json:"latencies"`
}

// pollWait is how long one poll waits: as long as a server allows.
const pollWait = 60 * time.Second

// Run measures what it costs to have many workers waiting.
func (c *benchPollsCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.Polls < 1 || c.Registered < 0 || c.Samples < 0 || c.Duration <= 0 || c.Settle < 0 {
		return usagef("--polls and --duration must be greater than 0, --registered, --samples and --settle not below")
	}
	report, err := c.measure(inv, api)
	return c.shown(inv, report, err)
}

// pollers are the workers of the measurement.
type pollers struct {
	*benchSite
	answered atomic.Int64
	taken    chan time.Time
}

func (c *benchPollsCmd) measure(inv *invocation, api *client.Client) (*pollsReport, error) {
	health, err := api.Health(inv.ctx)
	if err != nil {
		return nil, err
	}
	p := &pollers{benchSite: newBenchSite(api), taken: make(chan time.Time)}
	defer p.dismiss()
	if err := p.register(inv.ctx, c.Polls, c.Registered); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(inv.ctx)
	defer stop()
	polls, polling := errgroup.WithContext(ctx)
	for _, name := range p.names[:c.Polls] {
		polls.Go(func() error { return p.poll(polling, name) })
	}
	report := &pollsReport{Storage: health.Storage, Polls: c.Polls, Registered: c.Polls + c.Registered}
	err = c.watch(polling, p, report)
	stop()
	if ended := polls.Wait(); ended != nil {
		err = ended // it made the watching end
	}
	return report, err
}

// register makes n workers that poll known, and others, many at a time.
func (p *pollers) register(ctx context.Context, n, others int) error {
	p.names = make([]string, n+others)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range p.names {
		p.names[i] = fmt.Sprintf("%s-%d", p.label, i)
		group.Go(func() error {
			_, _, err := p.api.RegisterWorker(ctx, bloom.WorkerSpec{Name: p.names[i], Status: bloom.WorkerOnline, InstallMethod: "bloom bench",
				InstanceID: p.label, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1, Labels: []string{p.label}}})
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

func (c *benchPollsCmd) watch(ctx context.Context, p *pollers, report *pollsReport) error {
	if err := sleep(ctx, c.Settle); err != nil {
		return err
	}
	before, err := usesOf(c.PID)
	if err != nil {
		return err
	}
	began, answered := time.Now(), p.answered.Load()
	if err := sleep(ctx, c.Duration); err != nil {
		return err
	}
	after, err := usesOf(c.PID)
	if err != nil {
		return err
	}
	report.Seconds, report.Answered = time.Since(began).Seconds(), p.answered.Load()-answered
	report.Processes = []processUse{}
	for i := range after {
		report.Processes = append(report.Processes, after[i].since(before[i], report.Seconds))
	}
	steps := newBenchSteps("create to start")
	for range c.Samples {
		if err := p.sample(ctx, steps); err != nil {
			return err
		}
	}
	report.Steps = steps.latencies()
	return nil
}

// sample posts a task that any of the polls may take.
func (p *pollers) sample(ctx context.Context, steps *benchSteps) error {
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

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *pollsReport) print(inv *invocation) error {
	inv.say("%s polls wait, %s workers are registered (%s); %d polls came back in %.0f s",
		thousands(int64(r.Polls)), thousands(int64(r.Registered)), r.Storage, r.Answered, r.Seconds)
	for _, p := range r.Processes {
		inv.say("process %d (%s): %.1f %% of a core, %.0f MB", p.PID, p.Name, p.CPUPercent, p.MemoryMB)
	}
	for _, s := range r.Steps {
		inv.say("%s: p50 %.1f ms, p99 %.1f ms (%d)", s.Name, s.P50, s.P99, s.Count)
	}
	return nil
}
