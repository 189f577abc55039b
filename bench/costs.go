package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/bench"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// costsCmd measures the processor time that single operations take in the processes that
// serve them. scaling calculates with these numbers.
type costsCmd struct {
	target
	Clients  int           `short:"c" default:"8" placeholder:"N" help:"Clients at once."`
	Duration time.Duration `short:"d" default:"10s" help:"How long each operation is repeated."`
	Events   int           `default:"5" placeholder:"N" help:"Events in a request."`
	Streams  int           `default:"500" placeholder:"N" help:"Streams followed at once; 0 for none."`
	PID      []int         `required:"" placeholder:"PID" help:"Process on this machine whose CPU to measure, with its children: the server first, then others of the same database, and the database (repeatable; Linux)."`
}

// costSite is a site with one worker per client.
type costSite struct {
	*bench.Site
	*costsCmd

	table *tabwriter.Writer
	idle  []float64   // seconds of processor time a second, by process
	conns []leaseConn // by client
}

// leaseConn is a client's connection, and the lease that it renews and sends events for.
type leaseConn struct {
	*bench.Wire

	task, lease string
	seq         int64 // of the last event sent
}

func (c *costsCmd) Run(ctx context.Context, out io.Writer) error {
	api, err := c.unlimited(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "milliseconds of one core an operation, with %d clients\n\n", c.Clients)
	s := &costSite{Site: bench.NewSite(api), costsCmd: c, table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), conns: make([]leaseConn, c.Clients)}
	defer s.CleanUp()
	if err := s.measureIdle(ctx); err != nil {
		return err
	}
	// Connect after the idle measurement: a server closes idle connections.
	defer func() {
		for _, conn := range s.conns {
			if conn.Wire != nil {
				conn.Close()
			}
		}
	}()
	if err := s.connect(ctx); err != nil {
		return err
	}
	for _, o := range []struct {
		name string
		once func(int) error
	}{{"create, claim and complete a task", s.lifecycle}, {"a claim that finds nothing", s.emptyClaim}} {
		if err := s.measure(ctx, o.name, s.Clients, 1, o.once); err != nil {
			return err
		}
	}
	for i := range s.conns {
		if err := s.keepLease(i); err != nil {
			return err
		}
	}
	if err := s.measure(ctx, "renew a lease", s.Clients, 1, s.renew); err != nil {
		return err
	}
	if err := s.measure(ctx, fmt.Sprintf("a request with %d events", c.Events), s.Clients, 1, s.sendEvents); err != nil {
		return err
	}
	memory, err := s.streams(ctx)
	if err != nil {
		return err
	}
	for i := range s.conns {
		if err := s.conns[i].Complete(s.conns[i].task, s.conns[i].lease); err != nil {
			return err
		}
	}
	if err := s.table.Flush(); err != nil {
		return err
	}
	if c.Streams > 0 {
		fmt.Fprintf(out, "%d streams: %.0f KiB of process %d each\n", c.Streams, memory, c.PID[0])
	}
	return nil
}

// connect gives every client a connection and a worker with a label of its own.
func (s *costSite) connect(ctx context.Context) (err error) {
	labels := make([]string, len(s.conns))
	for i := range s.conns {
		labels[i] = fmt.Sprintf("%s-%d", s.Label, i)
		if s.conns[i].Wire, err = bench.Dial(ctx, s.API.BaseURL(), s.APIKey); err != nil {
			return err
		}
	}
	return s.Register(ctx, labels, 1)
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
	fmt.Fprint(s.table, "OPERATION\tCOUNT\tPER SECOND")
	for i, u := range after {
		fmt.Fprintf(s.table, "\t%s %d", u.Name, u.PID)
		s.idle = append(s.idle, u.since(before[i], s.Duration.Seconds()).CPUPercent/100)
	}
	fmt.Fprintln(s.table)
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
	perSecond := float64(count.Load()) / seconds
	fmt.Fprintf(s.table, "%s\t%d\t%.0f", name, count.Load(), perSecond)
	for i, u := range after {
		busy := u.since(before[i], seconds).CPUPercent/100 - s.idle[i]
		fmt.Fprintf(s.table, "\t%.3f", max(0, 1000*busy/perSecond))
	}
	fmt.Fprintln(s.table)
	return nil
}

// claim claims for the client's worker without waiting.
func (s *costSite) claim(i, limit int, holds map[string]bool) ([]bloom.LeasedTask, error) {
	return s.conns[i].Claim(s.Names[i], s.Label, limit, 0, holds)
}

// start creates a task and claims it.
func (s *costSite) start(i int) (task, lease string, err error) {
	if task, err = s.conns[i].Create(s.ContextID(), s.Names[i]); err != nil {
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
	return s.conns[i].Complete(task, lease)
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
	var accepted map[string]any
	return h.Post("/llm-tasks/"+h.task+"/events?lease_id="+h.lease, lines.Bytes(), &accepted)
}

// streams follows the first client's task with many streams. It returns their memory in
// the first process, in KiB a stream, and measures the processor time to send them events.
func (s *costSite) streams(ctx context.Context) (kib float64, err error) {
	if s.Streams == 0 {
		return 0, nil
	}
	before, err := usesOf(s.PID)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	for range s.Streams {
		stream, err := s.follow(ctx)
		if err != nil {
			return 0, err
		}
		reading.Go(func() {
			_, _ = io.Copy(io.Discard, stream)
			_ = stream.Close()
		})
	}
	if err := retry.Sleep(ctx, time.Second); err != nil { // until the garbage of connecting is collected
		return 0, err
	}
	after, err := usesOf(s.PID)
	if err != nil {
		return 0, err
	}
	return (after[0].MemoryMB - before[0].MemoryMB) * 1024 / float64(s.Streams),
		s.measure(ctx, "send a request's events to one stream", 1, int64(s.Streams), s.sendEvents)
}

// follow opens a stream of the events after those that were sent.
func (s *costSite) follow(ctx context.Context) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.API.BaseURL()+"/llm-tasks/"+s.conns[0].task+"/events", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Last-Event-ID", strconv.FormatInt(s.conns[0].seq, 10))
	if s.APIKey != "" {
		req.Header.Set("X-Runtime-API-Key", s.APIKey)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("a stream: %s", resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}
