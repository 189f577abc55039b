package worker

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
)

// Worker claims tasks and runs them. Create one with New and call Run once. Stop,
// StopNow, FollowControlPlane and Status may be called by any goroutine at any time.
type Worker struct {
	cfg Config
	log *slog.Logger

	stopAsked   chan struct{}
	stopOnce    sync.Once
	stopNow     chan struct{}
	stopNowOnce sync.Once

	// Set by Run before any other goroutine starts.
	state      *state
	outbox     *outbox
	runCtx     context.Context // of the runs; ends with a cause
	cancelRuns context.CancelCauseFunc
	deliverCtx context.Context // of deliveries; outlives the runs
	running    sync.WaitGroup  // jobs with their lease keepers and event senders

	mu         sync.Mutex
	jobs       map[string]*job      // by lease
	ended      chan struct{}        // closed and replaced when a job or a delivery has ended
	pausing    *bloom.Pause         // claims nothing until its end; nil before the first one
	refusals   int                  // how often the credentials were refused since the last success
	refusedAt  time.Time            // of the last refusal
	suspects   map[string]suspicion // by task
	acceptedAt time.Time            // when a run last succeeded
	limited    bool                 // takes one task at a time: no run shows yet that the credentials are accepted again
	readyErr   error                // why no task can be run at present; nil when one can
	stateErr   error                // why the state folder cannot be written; nil when it can
	stop       bool                 // the worker is stopping and claims nothing more
	inPoll     *polling             // the poll in flight
	stopSent   map[string]bool      // leases whose job was already notified of its loss or cancellation
	status     Status
	failure    struct { // the last one that was logged
		reason string
		logged time.Time
	}

	serverDrain      bool         // the server's last answer said drain, for whatever reason
	controlDrain     *bool        // whether the control plane drains the worker; nil before it has said so
	reportedDrain    *bool        // controlDrain as of the last registration
	reportedReady    bool         // whether the last registration said that tasks can be run
	reportedPause    *bloom.Pause // in the last registration
	reportedStateErr bool         // whether the last registration said that the state folder cannot be written

	agents         []string // as they were read last
	setup          bloom.WorkerSetup
	reportedSetup  bloom.WorkerSetup
	agentsRead     time.Time
	reportedAgents []string // agents as of the last registration
}

// New makes a worker. It touches nothing before Run.
func New(cfg Config) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Worker{
		cfg: cfg, log: cfg.Logger.With("worker", cfg.Name),
		stopAsked: make(chan struct{}), stopNow: make(chan struct{}),
		jobs: map[string]*job{}, ended: make(chan struct{}), stopSent: map[string]bool{},
	}, nil
}

// Run works until ctx ends or Stop is called. It then lets running tasks finish,
// reports the worker offline, and returns nil. It returns an error when the worker
// cannot work at all: its state folder is in use (ErrStateInUse), another live
// process has its name (bloom.ErrWorkerConflict), or the server refuses its key. It
// returns ErrStillRunning when a runner did not stop in time; only such a runner
// still runs after Run has returned.
func (w *Worker) Run(ctx context.Context) error {
	st, err := openState(w.cfg.StateDir)
	if err != nil {
		return err
	}
	defer st.close()
	if st.copied {
		w.log.Warn("the state folder is a copy: this worker is a new instance, which the server refuses while the original one is alive")
	}
	st.sweep(w.now(), 2*bloom.MaxLeaseTTLSec*time.Second)

	delivery, stopDelivery := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivery()
	w.deliverCtx = delivery
	w.runCtx, w.cancelRuns = context.WithCancelCause(delivery)
	defer w.cancelRuns(nil)
	w.mu.Lock()
	w.state = st
	w.outbox = newOutbox(filepath.Join(st.dir, "outbox"), w.cfg, w.log, w.settled, w.stateFailed)
	w.mu.Unlock()
	undelivered, err := w.outbox.load()
	if err != nil {
		return err
	}
	orderly := false
	defer func() { // after the last delivery, which would make the worker online again
		if orderly {
			w.reportOffline(ctx)
		}
	}()
	for _, d := range undelivered {
		w.outbox.deliver(delivery, d, 0)
	}
	defer func() {
		w.outbox.close()
		stopDelivery()
		w.outbox.wg.Wait()
	}()

	stopping, stop := w.stopSignal(ctx)
	defer stop()
	if err := st.probe(); err != nil {
		w.stateFailed(err)
	}
	w.readAgents(stopping)
	if w.readyErr = w.notReady(stopping); w.readyErr != nil && stopping.Err() == nil {
		w.log.Error("not claiming tasks: claude is unavailable", "error", w.readyErr)
	}
	if err := w.register(stopping, true); err != nil {
		return ignoreAfterEnd(stopping, err)
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

// loop polls until the worker is to stop, then shuts down.
func (w *Worker) loop(stopping context.Context) error {
	polls, stopPolls := context.WithCancel(w.deliverCtx)
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
		// Another process has this worker's name, and its leases with it.
		w.setStopping()
		w.cancelRuns(attempt.ErrLeaseGone)
		w.awaitRuns(w.cfg.StopWait, nil)
		return err
	case <-stopping.Done():
	}
	return w.shutDown(func() {
		stopPolls()
		poller.Wait()
	})
}

func (w *Worker) now() time.Time { return w.cfg.Clock.Now() }

func (w *Worker) hasJob(leaseID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs[leaseID] != nil
}

// removeJob frees a job's slot.
func (w *Worker) removeJob(j *job) {
	defer w.outcomeEnded()
	w.mu.Lock()
	delete(w.jobs, j.keeper.lease.ID)
	delete(w.stopSent, j.keeper.lease.ID)
	full := w.inPoll != nil && w.inPoll.max == 0
	w.mu.Unlock()
	if full {
		w.interrupt() // a poll that asks for nothing would sleep over the free slot
	}
}
