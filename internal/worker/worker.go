package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// ErrCut says that the worker was cut off before its work could end.
var ErrCut = errors.New("the worker was cut off before its running tasks had stopped")

// Worker claims tasks and runs them. Make one with New, call Run once. Drain,
// Cut, FollowControlPlane and Status may be called by any goroutine at any time.
type Worker struct {
	cfg Config
	log *slog.Logger

	drain     chan struct{}
	drainOnce sync.Once
	cut       chan struct{}
	cutOnce   sync.Once

	// Set by Run before any other goroutine starts.
	state    *state
	outbox   *outbox
	life     context.Context // of the runs; ends with a cause
	end      context.CancelCauseFunc
	delivery context.Context // of deliveries; outlives the runs
	running  sync.WaitGroup  // jobs and what serves them

	mu     sync.Mutex
	jobs   map[string]*job // by lease
	parked time.Time       // takes nothing before
	unable error           // why no task can be run at present
	// unwritten is why the state folder cannot be written; nil when it can.
	unwritten error
	stop      bool            // we are to stop: nothing more is taken
	inPoll    *polling        // the poll in flight
	told      map[string]bool // leases whose cancel or loss was acted on
	status    Status

	serverDrain   bool  // the server says drain: its own level or the control plane's
	controlDrain  *bool // the control plane's level; nil before it has said
	reportedDrain *bool // what the last registration said of that
	reportedFit   bool  // whether the last registration said that tasks can be run

	reportedTrouble bool // whether the last registration said that the state folder cannot be written
}

// New makes a worker; nothing is touched before Run.
func New(cfg Config) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Worker{
		cfg: cfg, log: cfg.Logger.With("worker", cfg.Name),
		drain: make(chan struct{}), cut: make(chan struct{}),
		jobs: map[string]*job{}, told: map[string]bool{},
	}, nil
}

// Drain orders the worker to stop like the end of Run's context: it takes
// nothing more, lets running tasks end within the grace, and returns from Run.
func (w *Worker) Drain() { w.drainOnce.Do(func() { close(w.drain) }) }

// Cut ends the grace at once: runs are told to stop now.
func (w *Worker) Cut() {
	w.Drain()
	w.cutOnce.Do(func() { close(w.cut) })
}

// Run works until ctx ends or Drain is called, then drains, tells the server that
// it goes, and returns nil. It returns an error when the worker cannot work at
// all: its state folder is in use (ErrStateInUse), its name is taken by another living process
// (bloom.ErrWorkerConflict), its key is refused; and ErrCut when a runner did
// not stop when told. After it has returned nothing of it is left running,
// except what such a runner left.
func (w *Worker) Run(ctx context.Context) error {
	st, err := openState(w.cfg.StateDir)
	if err != nil {
		return err
	}
	defer st.close()
	if st.copied {
		w.log.Warn("the state folder is a copy: this worker is a new instance, which the server refuses while the first one is alive")
	}
	st.sweep(w.now(), 2*bloom.MaxLeaseTTLSec*time.Second)

	delivery, stopDelivery := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivery()
	w.delivery = delivery
	w.life, w.end = context.WithCancelCause(delivery)
	defer w.end(nil)
	w.mu.Lock()
	w.state = st
	w.outbox = newOutbox(filepath.Join(st.dir, "outbox"), w.cfg, w.log, w.settled, w.unwritable)
	w.mu.Unlock()
	left, err := w.outbox.load()
	if err != nil {
		return err
	}
	orderly := false
	defer func() { // after the last delivery, which would count as a sign of life
		if orderly {
			w.goodbye(ctx)
		}
	}()
	for _, l := range left {
		w.outbox.deliver(delivery, l, 0)
	}
	defer func() {
		w.outbox.close()
		stopDelivery()
		w.outbox.wg.Wait()
	}()

	stopping, stop := w.stopSignal(ctx)
	defer stop()
	if err := st.probe(); err != nil {
		w.unwritable(err)
	}
	if w.unable = w.notReady(stopping); w.unable != nil && stopping.Err() == nil {
		w.log.Error("not claiming tasks: claude is unavailable", "error", w.unable)
	}
	if err := w.register(stopping, true); err != nil {
		return ended(stopping, err)
	}
	reporting, stopReports := context.WithCancel(delivery)
	var reports sync.WaitGroup
	reports.Go(func() { w.reportLogs(reporting) })
	err = w.loop(stopping)
	orderly = err == nil
	stopReports()
	reports.Wait()
	return err
}

// stopSignal is a context that ends when the worker is to stop.
func (w *Worker) stopSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.drain:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// loop polls until the worker is to stop, then drains.
func (w *Worker) loop(stopping context.Context) error {
	polls, stopPolls := context.WithCancel(w.delivery)
	defer stopPolls()
	fatal := make(chan error, 1)
	var poller sync.WaitGroup
	poller.Go(func() {
		if err := w.poll(polls); err != nil {
			fatal <- err
		}
	})
	defer poller.Wait()
	defer stopPolls()

	select {
	case err := <-fatal:
		// Another process has our name and with it our leases.
		w.setStopping()
		w.end(bloom.ErrLeaseGone)
		w.stopped(w.cfg.StopWait)
		return err
	case <-stopping.Done():
	}
	return w.drainOut(func() {
		stopPolls()
		poller.Wait()
	})
}

// drainOut lets running tasks end within the grace, stops those that do not,
// releases what a last claim brings, and delivers what is left.
func (w *Worker) drainOut(endPolls func()) error {
	w.setStopping()
	w.log.Info("stopping: no new tasks are taken", "running", w.count(nil).Running, "grace", w.cfg.Grace)
	var err error
	if !w.stoppedOrCut(w.cfg.Grace) {
		running := w.count(nil).Running
		select {
		case <-w.cut:
			w.log.Warn("told to stop at once: running tasks are stopped and released", "running", running)
		default:
			w.log.Warn("the grace is over; running tasks are stopped and released", "running", running)
		}
		w.end(bloom.ErrDraining)
		if !w.stopped(w.cfg.StopWait) {
			err = ErrCut
		}
	}
	endPolls()
	ctx, cancel := context.WithTimeout(w.delivery, w.cfg.DeliverWait)
	defer cancel()
	w.lastClaim(ctx)
	w.outbox.wake()
	w.outbox.close()
	delivered := make(chan struct{})
	go func() {
		w.outbox.wg.Wait()
		close(delivered)
	}()
	select {
	case <-delivered:
	case <-ctx.Done():
		w.log.Warn("outcomes are left in the outbox; the next start delivers them", "undelivered", w.outbox.size())
	}
	return err
}

// stopped reports whether all work has ended within the time.
func (w *Worker) stopped(within time.Duration) bool {
	return w.awaitRuns(within, nil)
}

func (w *Worker) stoppedOrCut(within time.Duration) bool { return w.awaitRuns(within, w.cut) }

func (w *Worker) awaitRuns(within time.Duration, cut <-chan struct{}) bool {
	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-ended:
		return true
	case <-t.C:
	case <-cut:
	}
	return false
}

func (w *Worker) now() time.Time { return w.cfg.Clock.Now() }

func (w *Worker) setStopping() {
	w.mu.Lock()
	w.stop = true
	w.mu.Unlock()
	w.interrupt()
}

func (w *Worker) stopping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stop
}

func (w *Worker) knows(leaseID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs[leaseID] != nil
}

// done frees a job's slot.
func (w *Worker) done(j *job) {
	w.mu.Lock()
	delete(w.jobs, j.keeper.lease.ID)
	delete(w.told, j.keeper.lease.ID)
	full := w.inPoll != nil && w.inPoll.max == 0
	w.mu.Unlock()
	if full {
		w.interrupt() // a poll that asks for nothing would sleep over the free slot
	}
}

// spec is what the server gets to know of the worker now.
func (w *Worker) spec() bloom.WorkerSpec {
	spec := w.cfg.About
	spec.Name, spec.Capabilities, spec.InstanceID = w.cfg.Name, w.cfg.Capabilities, w.state.instance
	spec.Status = bloom.WorkerOnline
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reportedFit, w.reportedTrouble = w.unable == nil, w.unwritten != nil
	spec.Capabilities.ClaudeCLI = spec.Capabilities.ClaudeCLI && w.reportedFit
	if w.reportedTrouble {
		spec.Status = bloom.WorkerError
	}
	spec.Draining = w.controlDrain
	return spec
}

// register makes the worker known, trying for as long as the server is away. A
// wrong key is told at once at the start; later it may be one that is being
// replaced, and ends nothing.
func (w *Worker) register(ctx context.Context, atStart bool) error {
	for n := 0; ; n++ {
		spec := w.spec() // things may have changed while the server was away
		answer, err := w.cfg.Client.Register(ctx, spec)
		if err == nil {
			w.mu.Lock()
			w.reportedDrain, w.serverDrain = spec.Draining, answer.Draining
			w.mu.Unlock()
			w.reached()
			if w.cfg.OnMembridge != nil && answer.MembridgeURL != "" {
				w.cfg.OnMembridge(answer.MembridgeURL)
			}
			w.log.Info("registered", "new", answer.Created, "max_concurrency", spec.Capabilities.MaxConcurrency, "labels", spec.Capabilities.Labels)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if refused(err) || atStart && denied(err) {
			return fmt.Errorf("the server does not take worker %q: %w", w.cfg.Name, err)
		}
		w.unreached(err)
		if retry.Sleep(ctx, pollRetry.Wait(n, err)) != nil {
			return ctx.Err()
		}
	}
}

// goodbyeLimit bounds the last word to the server.
const goodbyeLimit = 3 * time.Second

// goodbye tells the server that the worker is gone, so that it is not taken for
// alive until its silence shows. A server that was away a moment ago is not waited
// for.
func (w *Worker) goodbye(ctx context.Context) {
	if w.cfg.Leaving != nil {
		w.cfg.Leaving()
	}
	if !w.Status().Connected {
		return
	}
	spec := w.spec()
	spec.Status, spec.Draining = bloom.WorkerOffline, nil
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeLimit)
	defer cancel()
	if _, err := w.cfg.Client.Register(last, spec); err != nil {
		w.log.Debug("the server was not told that this worker stops", "error", err)
	}
}

func denied(err error) bool {
	k := bloom.KindOf(err)
	return k == bloom.KindUnauthorized || k == bloom.KindForbidden
}
