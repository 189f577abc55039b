// Package maintenance has a server's background loops, such as the Reaper, which ends
// expired leases, WorkerSync, which copies the control plane's workers, and Retention,
// which removes old records. Each is a Loop around a few operations of the store; the
// rules are in internal/lifecycle.
package maintenance

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Result is the result of one run of a loop.
type Result struct {
	Changed int    // number of changes
	Detail  string // describes them, for the log
}

// Loop runs a job regularly. Its methods are safe for concurrent use; Start and Stop may be
// called repeatedly, in any order.
type Loop struct {
	name  string
	every time.Duration
	job   func(context.Context) (Result, error)
	log   *slog.Logger

	isLeader     func(context.Context) (bool, error) // nil: every replica runs the job
	observe      func(error)                         // may be nil
	notRun       func()                              // called instead of job in a run that cannot or must not do it; may be nil
	failureLevel slog.Level                          // of the first of several failures

	turn   chan struct{} // holds one token: runs never overlap
	runNow chan struct{} // holds a token when the next run is due now

	mu        sync.Mutex
	cancel    context.CancelFunc
	done      chan struct{}
	cancelRun context.CancelFunc // cancels the current regular run

	failing bool // guarded by turn
}

func newLoop(name string, every time.Duration, log *slog.Logger, job func(context.Context) (Result, error)) *Loop {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Loop{
		name: name, every: every, job: job, log: log.With("loop", name), failureLevel: slog.LevelError,
		turn: make(chan struct{}, 1), runNow: make(chan struct{}, 1),
	}
	l.turn <- struct{}{}
	return l
}

// OnlyLeader makes the loop run its job only while isLeader returns true, so that only one
// replica does. Call it before Start.
func (l *Loop) OnlyLeader(isLeader func(context.Context) (bool, error)) *Loop {
	l.isLeader = isLeader
	return l
}

// Observe makes the loop call observe after every run, for metrics, with the run's error.
// It does not count runs that were cancelled or left to another replica. Call it before
// Start.
func (l *Loop) Observe(observe func(err error)) *Loop {
	l.observe = observe
	return l
}

// Name returns the loop's name in logs.
func (l *Loop) Name() string { return l.name }

// Start runs the job at once and then regularly, until Stop. It does nothing if the loop is
// already started.
func (l *Loop) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.done = cancel, make(chan struct{})
	go l.run(ctx, l.done)
}

// Stop stops the loop, cancels the current run and waits for it. The loop can be started
// again. Stop does nothing if the loop is not started.
func (l *Loop) Stop() {
	l.mu.Lock()
	cancel, done := l.cancel, l.done
	l.cancel = nil
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if done != nil {
		<-done // a concurrent Stop waits, too
	}
}

func (l *Loop) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(l.every)
	defer ticker.Stop()
	for {
		var again <-chan time.Time
		tick := ticker.C
		if done, err := l.runOne(ctx); err != nil {
			again, tick = time.After(max(minRetryWait, min(l.every, retryAfter))), nil
		} else if !done {
			again = time.After(min(l.every, retryAfter))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-again:
		case <-l.runNow:
		}
	}
}

// retryAfter is the maximum wait after a run that failed or was left to another replica.
// Otherwise a rare job would wait long after that replica has died.
const retryAfter = 10 * time.Second

// minRetryWait is the minimum wait after a failed run, because each try may log an error
// in the database or in the storage.
const minRetryWait = 5 * time.Second

// runOne makes a regular run, which Restart can cancel. It returns false if the run was left
// to another replica.
func (l *Loop) runOne(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.cancelRun = cancel
	l.mu.Unlock()
	_, done, err := l.once(ctx) // logs the error
	return done, err
}

// Restart cancels the current regular run and begins another one at once, because its input
// has changed. It never blocks. It does nothing if the loop is not started.
func (l *Loop) Restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancelRun != nil {
		l.cancelRun()
	}
	l.RunSoon()
}

// RunSoon begins the next run at once, or after the current one. It never blocks. It does
// nothing if the loop is not started.
func (l *Loop) RunSoon() {
	select {
	case l.runNow <- struct{}{}:
	default:
	}
}

// RunOnce runs the job once, after the current run. Only the first of several failures is
// logged, and the first success after them.
func (l *Loop) RunOnce(ctx context.Context) (Result, error) {
	res, _, err := l.once(ctx)
	return res, err
}

// once is RunOnce. It also returns whether this replica ran the job.
func (l *Loop) once(ctx context.Context) (Result, bool, error) {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return Result{}, false, ctx.Err()
	}
	defer func() { l.turn <- struct{}{} }()
	leads, err := true, error(nil)
	if l.isLeader != nil {
		leads, err = l.isLeader(ctx)
	}
	var res Result
	switch {
	case leads && err == nil:
		res, err = l.job(ctx)
	case l.notRun != nil:
		l.notRun()
	}
	l.report(ctx, res, err)
	if l.observe != nil && ctx.Err() == nil && (leads || err != nil) {
		l.observe(err)
	}
	return res, leads, err
}

func (l *Loop) report(ctx context.Context, res Result, err error) {
	switch {
	case err != nil && ctx.Err() != nil: // cancelled, which is not a failure
	case err != nil && !l.failing:
		l.failing = true
		l.log.Log(ctx, l.failureLevel, "a background loop fails and is retried", "every", l.every, "error", err)
	case err == nil && l.failing:
		l.failing = false
		l.log.InfoContext(ctx, "a background loop works again")
	}
	if err == nil && res.Changed > 0 {
		l.log.InfoContext(ctx, res.Detail, "changed", res.Changed)
	}
}
