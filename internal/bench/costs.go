package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// Costs measures what single operations cost the processes that serve them: the numbers
// that tools/scaling calculates with.
type Costs struct {
	APIKey   string
	Clients  int           // at once
	Duration time.Duration // of each operation
	Events   int           // in a request
	Streams  int           // followed at once; 0 for none
	PID      []int         // processes on this machine to measure, with their children; Linux only
}

// CostsReport is what each operation costs each process.
type CostsReport struct {
	Storage    string   `json:"storage"`
	Clients    int      `json:"clients"`
	Processes  []string `json:"processes"`
	Operations []Cost   `json:"operations"`
	Streams    int      `json:"streams"`
	StreamKiB  float64  `json:"stream_kib" doc:"Memory of the first process a stream"`
}

// Cost is what an operation costs.
type Cost struct {
	Name      string    `json:"operation"`
	Count     int64     `json:"count"`
	PerSecond float64   `json:"per_second"`
	CPU       []float64 `json:"cpu_ms" doc:"Of one core, an operation, by process; what each does when idle is subtracted"`
}

// costSite is a site whose clients have a worker each.
type costSite struct {
	*site
	Costs

	report *CostsReport
	idle   []float64 // seconds of processor time a second, by process
	held   []holding // by client
}

// holding is a client's connection, and the lease that it renews and reports on.
type holding struct {
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
	s := &costSite{site: newSite(api), Costs: m, report: &CostsReport{Storage: health.Storage, Clients: m.Clients, Streams: m.Streams}, held: make([]holding, m.Clients)}
	defer s.leave()
	if err := s.rest(ctx); err != nil {
		return nil, err
	}
	// Only now: a server closes connections that send nothing for a while.
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	defer func() {
		for _, h := range s.held {
			h.close()
		}
	}()
	for _, o := range []struct {
		name string
		once func(int) error
	}{{"create, claim and complete a task", s.whole}, {"a claim that finds nothing", s.empty}} {
		if err := s.measure(ctx, o.name, s.Clients, 1, o.once); err != nil {
			return nil, err
		}
	}
	for i := range s.held {
		if err := s.hold(i); err != nil {
			return nil, err
		}
	}
	if err := s.measure(ctx, "renew a lease", s.Clients, 1, s.renew); err != nil {
		return nil, err
	}
	if err := s.measure(ctx, fmt.Sprintf("a request with %d events", m.Events), s.Clients, 1, s.send); err != nil {
		return nil, err
	}
	if err := s.streams(ctx); err != nil {
		return nil, err
	}
	for i := range s.held {
		if err := s.held[i].complete(s.held[i].task, s.held[i].lease); err != nil {
			return nil, err
		}
	}
	return s.report, nil
}

// connect gives every client a connection and a worker that nobody else's tasks fit.
func (s *costSite) connect(ctx context.Context) (err error) {
	for i := range s.held {
		if s.held[i].wire, err = dial(ctx, s.api.BaseURL(), s.APIKey); err != nil {
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

// rest measures what the processes do when idle.
func (s *costSite) rest(ctx context.Context) error {
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

// measure has clients repeat an operation, each of which counts for so many.
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

// claimed is a claim without waiting by the client's worker.
func (s *costSite) claimed(i, most int, holds map[string]bool) ([]bloom.LeasedTask, error) {
	return s.held[i].claimWithin(s.names[i], s.label, most, 0, holds)
}

func (s *costSite) take(i int) (task, lease string, err error) {
	if task, err = s.held[i].create(s.context(), s.names[i]); err != nil {
		return "", "", err
	}
	leases, err := s.claimed(i, 1, nil)
	if err != nil {
		return "", "", err
	}
	if len(leases) != 1 || leases[0].Task.ID != task {
		return "", "", errors.New("the claim came back without the task: measure with a server of its own")
	}
	return task, leases[0].Lease.ID, nil
}

func (s *costSite) whole(i int) error {
	task, lease, err := s.take(i)
	if err != nil {
		return err
	}
	return s.held[i].complete(task, lease)
}

func (s *costSite) empty(i int) error {
	leases, err := s.claimed(i, 1, nil)
	if err == nil && len(leases) > 0 {
		err = errors.New("the claim found a task of somebody else: measure with a server of its own")
	}
	return err
}

func (s *costSite) hold(i int) (err error) {
	s.held[i].task, s.held[i].lease, err = s.take(i)
	return err
}

func (s *costSite) renew(i int) error {
	_, err := s.claimed(i, 0, map[string]bool{s.held[i].lease: true})
	return err
}

func (s *costSite) send(i int) error {
	h := &s.held[i]
	var lines bytes.Buffer
	for range s.Events {
		h.seq++
		fmt.Fprintf(&lines, `{"seq":%d,"type":"text","at":%d,"data":{"text":"A line of what the model says, of an ordinary length."}}`+"\n", h.seq, time.Now().UnixMilli())
	}
	return h.events(h.task, h.lease, lines.Bytes())
}

// streams has many follow the first client's task: what they take in memory, and what
// it costs to tell them.
func (s *costSite) streams(ctx context.Context) error {
	if s.Streams == 0 {
		return nil
	}
	before, err := usesOf(s.PID)
	if err != nil {
		return err
	}
	for range s.Streams {
		w, err := dial(ctx, s.api.BaseURL(), s.APIKey)
		if err != nil {
			return err
		}
		read, err := w.follow(s.held[0].task, s.held[0].seq)
		if err != nil {
			w.close()
			return err
		}
		defer func() { w.close(); <-read }()
	}
	if err := retry.Sleep(ctx, time.Second); err != nil { // until the garbage of the connecting is collected
		return err
	}
	after, err := usesOf(s.PID)
	if err != nil {
		return err
	}
	if len(after) > 0 {
		s.report.StreamKiB = (after[0].MemoryMB - before[0].MemoryMB) * 1024 / float64(s.Streams)
	}
	return s.measure(ctx, "tell one stream of a request with events", 1, int64(s.Streams), s.send)
}

// follow reads a task's stream after an event, until the connection is closed; then it
// closes ended.
func (w *wire) follow(task string, after int64) (ended <-chan struct{}, err error) {
	if err := w.conn.SetDeadline(time.Now().Add(wireTimeout)); err != nil {
		return nil, err
	}
	if _, err = fmt.Fprintf(w.conn, "GET %s/llm-tasks/%s/events%sLast-Event-ID: %d\r\n\r\n", w.path, task, w.header, after); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(w.in, nil) //nolint:bodyclose // its reader closes it
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("a stream: %s", resp.Status), resp.Body.Close())
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}()
	return read, w.conn.SetDeadline(time.Time{})
}
