package bench

import (
	"bytes"
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

// Costs measures the processor time that single operations take in the processes that
// serve them. tools/scaling calculates with these numbers.
type Costs struct {
	APIKey   string
	Clients  int           // at once
	Duration time.Duration // of each operation
	Events   int           // in a request
	Streams  int           // followed at once; 0 for none
	PID      []int         // processes on this machine to measure, with their children; Linux only
}

// CostsReport lists the cost of each operation in each process.
type CostsReport struct {
	Storage    string   `json:"storage"`
	Clients    int      `json:"clients"`
	Processes  []string `json:"processes"`
	Operations []Cost   `json:"operations"`
	Streams    int      `json:"streams"`
	StreamKiB  float64  `json:"stream_kib" doc:"Memory of the first process per stream"`
}

// Cost is the cost of one operation.
type Cost struct {
	Name      string    `json:"operation"`
	Count     int64     `json:"count"`
	PerSecond float64   `json:"per_second"`
	CPU       []float64 `json:"cpu_ms" doc:"Of one core, per operation, by process; the idle load is subtracted"`
}

// costSite is a site with one worker per client.
type costSite struct {
	*site
	Costs

	report *CostsReport
	idle   []float64   // seconds of processor time a second, by process
	conns  []leaseConn // by client
}

// leaseConn is a client's connection, and the lease that it renews and sends events for.
type leaseConn struct {
	*wire

	task, lease string
	seq         int64 // of the last event sent
}

// Measure runs against the server of api.
func (m Costs) Measure(ctx context.Context, api *client.Client) (_ *CostsReport, err error) {
	health, err := api.Health(ctx)
	if err != nil {
		return nil, err
	}
	s := &costSite{site: newSite(api), Costs: m, report: &CostsReport{Storage: health.Storage, Clients: m.Clients, Streams: m.Streams}, conns: make([]leaseConn, m.Clients)}
	defer s.cleanUp()
	if err := s.measureIdle(ctx); err != nil {
		return nil, err
	}
	// Connect after the idle measurement: a server closes idle connections.
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	defer func() {
		for _, h := range s.conns {
			h.close()
		}
	}()
	for _, o := range []struct {
		name string
		once func(int) error
	}{{"create, claim and complete a task", s.lifecycle}, {"a claim that finds nothing", s.emptyClaim}} {
		if err := s.measure(ctx, o.name, s.Clients, 1, o.once); err != nil {
			return nil, err
		}
	}
	for i := range s.conns {
		if err := s.keepLease(i); err != nil {
			return nil, err
		}
	}
	if err := s.measure(ctx, "renew a lease", s.Clients, 1, s.renew); err != nil {
		return nil, err
	}
	if err := s.measure(ctx, fmt.Sprintf("a request with %d events", m.Events), s.Clients, 1, s.sendEvents); err != nil {
		return nil, err
	}
	if err := s.streams(ctx); err != nil {
		return nil, err
	}
	for i := range s.conns {
		if err := s.conns[i].complete(s.conns[i].task, s.conns[i].lease); err != nil {
			return nil, err
		}
	}
	return s.report, nil
}

// connect gives every client a connection and a worker with a label of its own.
func (s *costSite) connect(ctx context.Context) (err error) {
	for i := range s.conns {
		if s.conns[i].wire, err = dial(ctx, s.api.BaseURL(), s.APIKey); err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%d", s.label, i)
		if _, err := s.api.RegisterWorker(ctx, bloom.WorkerSpec{Name: name, Status: bloom.WorkerOnline, InstallMethod: "bloom bench", InstanceID: s.label,
			Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1, Labels: []string{name}}}); err != nil {
			return err
		}
		s.names = append(s.names, name)
	}
	return nil
}

// measureIdle measures the load of the processes when idle.
func (s *costSite) measureIdle(ctx context.Context) error {
	before, err := usesOf(s.PID)
	if err != nil {
		return err
	}
	if err := retry.Sleep(ctx, s.Duration); err != nil {
		return err
	}
	after, err := usesOf(s.PID)
	if err != nil {
		return err
	}
	for i, u := range after {
		s.report.Processes = append(s.report.Processes, fmt.Sprintf("%s %d", u.Name, u.PID))
		s.idle = append(s.idle, u.since(before[i], s.Duration.Seconds()).CPUPercent/100)
	}
	return nil
}

// measure lets clients repeat an operation. Each call counts as each operations.
func (s *costSite) measure(ctx context.Context, name string, clients int, each int64, once func(i int) error) error {
	before, err := usesOf(s.PID)
	if err != nil {
		return err
	}
	began := time.Now()
	var count atomic.Int64
	var group errgroup.Group
	for i := range clients {
		group.Go(func() error {
			for ; ctx.Err() == nil && time.Since(began) < s.Duration; count.Add(each) {
				if err := once(i); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	after, err := usesOf(s.PID)
	if err != nil {
		return err
	}
	c := Cost{Name: name, Count: count.Load(), PerSecond: float64(count.Load()) / seconds, CPU: make([]float64, len(after))}
	for i, u := range after {
		busy := u.since(before[i], seconds).CPUPercent/100 - s.idle[i]
		c.CPU[i] = max(0, 1000*busy/c.PerSecond)
	}
	s.report.Operations = append(s.report.Operations, c)
	return nil
}

// claim claims for the client's worker without waiting.
func (s *costSite) claim(i, limit int, holds map[string]bool) ([]bloom.LeasedTask, error) {
	return s.conns[i].claimWithin(s.names[i], s.label, limit, 0, holds)
}

// start creates a task and claims it.
func (s *costSite) start(i int) (task, lease string, err error) {
	if task, err = s.conns[i].create(s.context(), s.names[i]); err != nil {
		return "", "", err
	}
	leases, err := s.claim(i, 1, nil)
	if err != nil {
		return "", "", err
	}
	if len(leases) != 1 || leases[0].Task.ID != task {
		return "", "", errors.New("the claim did not return the task: use a server without other workers and tasks")
	}
	return task, leases[0].Lease.ID, nil
}

func (s *costSite) lifecycle(i int) error {
	task, lease, err := s.start(i)
	if err != nil {
		return err
	}
	return s.conns[i].complete(task, lease)
}

func (s *costSite) emptyClaim(i int) error {
	leases, err := s.claim(i, 1, nil)
	if err == nil && len(leases) > 0 {
		err = errors.New("the claim returned a task that the benchmark did not create: use a server without other workers and tasks")
	}
	return err
}

func (s *costSite) keepLease(i int) (err error) {
	s.conns[i].task, s.conns[i].lease, err = s.start(i)
	return err
}

func (s *costSite) renew(i int) error {
	_, err := s.claim(i, 0, map[string]bool{s.conns[i].lease: true})
	return err
}

func (s *costSite) sendEvents(i int) error {
	h := &s.conns[i]
	var lines bytes.Buffer
	for range s.Events {
		h.seq++
		fmt.Fprintf(&lines, `{"seq":%d,"type":"text","at":%d,"data":{"text":"A line of what the model says, of an ordinary length."}}`+"\n", h.seq, time.Now().UnixMilli())
	}
	return h.events(h.task, h.lease, lines.Bytes())
}
