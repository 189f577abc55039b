package bench

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloom-runtime/bloom/client"
)

// Fleet measures the complete path: clients create tasks, and workers with long polls
// claim and complete them immediately. It first creates tasks one by one, then as
// many as the backlog allows.
type Fleet struct {
	APIKey   string
	Creators int           // clients that create tasks at once
	Workers  int           // workers that claim and complete tasks
	Slots    int           // tasks per worker at once, 1 to bloom.MaxConcurrency
	Backlog  int           // maximum number of unfinished tasks; 0: twice all slots
	Duration time.Duration // how long tasks are created
	Samples  int           // tasks created one by one first, while all workers are idle; 0 for none
}

// FleetReport is the result of a Fleet measurement.
type FleetReport struct {
	Server    string    `json:"server"`
	Storage   string    `json:"storage"`
	Tasks     int64     `json:"tasks_before"`
	Creators  int       `json:"creators"`
	Workers   int       `json:"workers"`
	Slots     int       `json:"slots"`
	Completed int       `json:"completed"`
	Failures  int       `json:"failed_calls"` // claims that were refused and repeated
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
	site := NewSite(api)
	defer site.CleanUp()
	if err := site.Register(ctx, slices.Repeat([]string{site.Label}, f.Workers), f.Slots); err != nil {
		return nil, err
	}
	r := newFleetRun(f, site)
	defer r.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range site.Names {
		group.Go(func() error { return r.work(ctx, name) })
	}
	group.Go(func() error {
		defer r.close() // ends the polls
		defer stop()
		return r.load(ctx, report)
	})
	return report, group.Wait()
}

// fleetRun is one measurement in progress.
type fleetRun struct {
	Fleet
	site  *Site
	steps *Steps

	backlog  chan struct{} // one entry per unfinished task
	failures atomic.Int64
	step     atomic.Pointer[string] // the step that starts are counted under

	mu    sync.Mutex
	tasks map[string]*pendingTask // by context
	wires map[*Wire]bool          // open connections; nil once the run is over
}

// pendingTask is a task of this run that is not completed yet.
type pendingTask struct {
	created time.Time
	id      string // "" until the server has answered
	done    chan struct{}
}

// The steps that starts are counted under.
var startsIdle, startsLoaded = "create to start, idle", "create to start, under load"

func newFleetRun(f Fleet, s *Site) *fleetRun {
	if f.Backlog == 0 {
		f.Backlog = 2 * f.Workers * f.Slots
	}
	r := &fleetRun{
		Fleet: f, site: s, steps: NewSteps("create", startsIdle, startsLoaded, "complete"), backlog: make(chan struct{}, f.Backlog),
		tasks: map[string]*pendingTask{}, wires: map[*Wire]bool{},
	}
	r.step.Store(&startsIdle)
	return r
}

// dial opens a worker's connection. It closes with the run. A creator's connection does
// not: without the answer the run would not know the ID of the task to cancel.
func (r *fleetRun) dial(ctx context.Context) (*Wire, error) {
	w, err := Dial(ctx, r.site.API.BaseURL(), r.APIKey)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wires == nil {
		w.Close()
		return nil, context.Canceled
	}
	r.wires[w] = true
	return w, nil
}

// close closes the workers' connections and marks unfinished tasks to be cancelled.
func (r *fleetRun) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.wires {
		w.Close()
	}
	r.wires = nil
	r.site.mu.Lock()
	defer r.site.mu.Unlock()
	for _, task := range r.tasks {
		if task.id != "" {
			r.site.waiting[task.id] = true
		}
	}
}
