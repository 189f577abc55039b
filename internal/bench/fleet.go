package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// Fleet measures the real path: clients create tasks, and workers whose long polls
// wait claim them and complete them at once. First the tasks come one by one, then
// as many as the backlog allows.
type Fleet struct {
	APIKey   string
	Creators int           // clients that create at once
	Workers  int           // that claim and complete
	Slots    int           // tasks that a worker has at once, 1 to bloom.MaxConcurrency
	Backlog  int           // most tasks created and not yet completed; 0: twice all slots
	Duration time.Duration // how long tasks are created
	Samples  int           // tasks created one by one before, while all workers wait; 0 for none
}

// FleetReport is what a measurement came to.
type FleetReport struct {
	Server    string    `json:"server"`
	Storage   string    `json:"storage"`
	Tasks     int64     `json:"tasks_before"`
	Creators  int       `json:"creators"`
	Workers   int       `json:"workers"`
	Slots     int       `json:"slots"`
	Completed int       `json:"completed"`
	Failures  int       `json:"failed_calls"` // claims that were refused as a whole, and repeated
	Seconds   float64   `json:"seconds"`      // from the first task's creation to the last one's completion
	PerSecond float64   `json:"tasks_per_second"`
	Steps     []Latency `json:"latencies"`
}

// Measure runs against the server of api.
func (f Fleet) Measure(ctx context.Context, api *client.Client) (*FleetReport, error) {
	health, err := api.Health(ctx)
	if err != nil {
		return nil, err
	}
	before, err := api.Stats(ctx)
	if err != nil {
		return nil, err
	}
	report := &FleetReport{
		Server: api.BaseURL(), Storage: health.Storage, Tasks: before.Tasks.Total, Creators: f.Creators, Workers: f.Workers, Slots: f.Slots,
	}
	p := &pollers{site: newSite(api)}
	defer p.dismiss()
	if err := p.registerWith(ctx, f.Workers, f.Slots); err != nil {
		return nil, err
	}
	r := newFleetRun(f, p.site)
	defer r.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range p.names {
		group.Go(func() error { return r.work(ctx, name) })
	}
	group.Go(func() error {
		defer r.close() // ends the polls
		defer stop()
		return r.load(ctx, report)
	})
	return report, group.Wait()
}

// fleetRun is one measurement under way.
type fleetRun struct {
	Fleet
	site  *site
	steps *steps

	backlog  chan struct{} // a place for each task that is created and not completed
	failures atomic.Int64
	step     atomic.Pointer[string] // what a start is counted as

	mu    sync.Mutex
	mine  map[string]*born // by context
	wires map[*wire]bool   // that are open; nil once the run is over
}

// born is a task that was created here, and has not been completed.
type born struct {
	at   time.Time
	id   string // "" until the server has told it
	done chan struct{}
}

// What a start is counted as.
var startsIdle, startsLoaded = "create to start, idle", "create to start, under load"

func newFleetRun(f Fleet, s *site) *fleetRun {
	if f.Backlog == 0 {
		f.Backlog = 2 * f.Workers * f.Slots
	}
	r := &fleetRun{
		Fleet: f, site: s, steps: newSteps("create", startsIdle, startsLoaded, "complete"), backlog: make(chan struct{}, f.Backlog),
		mine: map[string]*born{}, wires: map[*wire]bool{},
	}
	r.step.Store(&startsIdle)
	return r
}

// dial opens a worker's connection, which ends with the run. A creator's does not: a
// task whose id it never heard of would stay behind.
func (r *fleetRun) dial(ctx context.Context) (*wire, error) {
	w, err := dial(ctx, r.site.api.BaseURL(), r.APIKey)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wires == nil {
		w.close()
		return nil, context.Canceled
	}
	r.wires[w] = true
	return w, nil
}

// close ends all connections, and notes what was created and not completed, to be
// cancelled.
func (r *fleetRun) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.wires {
		w.close()
	}
	r.wires = nil
	r.site.mu.Lock()
	defer r.site.mu.Unlock()
	for _, b := range r.mine {
		if b.id != "" {
			r.site.waiting[b.id] = true
		}
	}
}

// drainWait is how long the workers may take for what is left when no more tasks
// are created.
const drainWait = 30 * time.Second

// load creates the tasks and waits until they are completed.
func (r *fleetRun) load(ctx context.Context, report *FleetReport) error {
	if err := r.oneByOne(ctx); err != nil {
		return err
	}
	r.step.Store(&startsLoaded)
	idle := r.steps.count("complete")
	began := time.Now()
	if err := r.create(ctx, began.Add(r.Duration)); err != nil {
		return err
	}
	late := time.After(drainWait)
	for range cap(r.backlog) { // all places are free when all are done
		select {
		case r.backlog <- struct{}{}:
		case <-late:
			return errors.New("the workers did not complete all tasks in time")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	report.Seconds = time.Since(began).Seconds()
	report.Completed = r.steps.count("complete") - idle
	report.Failures = int(r.failures.Load())
	report.PerSecond = float64(report.Completed) / report.Seconds
	report.Steps = r.steps.latencies()
	return nil
}

// oneByOne creates tasks while all workers wait.
func (r *fleetRun) oneByOne(ctx context.Context) error {
	w, err := dial(ctx, r.site.api.BaseURL(), r.APIKey)
	if err != nil {
		return err
	}
	defer w.close()
	for range r.Samples {
		// The workers have to be waiting again; when they are cannot be seen from outside.
		if err := retry.Sleep(ctx, 15*time.Millisecond); err != nil {
			return err
		}
		b, err := r.createOne(ctx, w)
		if err != nil {
			return err
		}
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// create lets all creators create until a time.
func (r *fleetRun) create(ctx context.Context, until time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	for range r.Creators {
		group.Go(func() error {
			w, err := dial(ctx, r.site.api.BaseURL(), r.APIKey)
			if err != nil {
				return err
			}
			defer w.close()
			for time.Now().Before(until) {
				if _, err := r.createOne(ctx, w); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// createOne creates a task as soon as there is a place for it.
func (r *fleetRun) createOne(ctx context.Context, w *wire) (*born, error) {
	select {
	case r.backlog <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	name := r.site.context()
	b := &born{at: time.Now(), done: make(chan struct{})}
	r.mu.Lock()
	r.mine[name] = b
	r.mu.Unlock()
	id, err := w.create(name, r.site.label)
	if err != nil {
		return nil, err
	}
	r.steps.since("create", b.at)
	r.mu.Lock()
	b.id = id
	r.mu.Unlock()
	return b, nil
}
