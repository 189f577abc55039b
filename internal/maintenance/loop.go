// Package maintenance holds the loops that keep a server in order: the Reaper, which
// ends overdue leases, SilentWorkers, which marks workers offline that nobody
// hears of, WorkerSync, which takes over what the control plane knows of workers,
// Retention, which removes what has grown old, and Series, which samples the queue
// for the time series. Each is a Loop around few operations of the store. No loop
// holds a rule of its own.
package maintenance

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Result is what one run of a loop did.
type Result struct {
	Changed int    // things that were changed
	Detail  string // in words, for the log; empty when nothing was
}

// Loop runs one job again and again. All methods may be called by many
// goroutines at once; Start and Stop may be repeated, in any order.
type Loop struct {
	name  string
	every time.Duration
	job   func(context.Context) (Result, error)
	mine  func(context.Context) (bool, error) // nil: the job always is
	heard func(error)                         // nil: nobody wants to know
	log   *slog.Logger
	// trouble is how loud a beginning failure is told.
	trouble slog.Level

	turn chan struct{} // holds one token: runs never overlap
	soon chan struct{} // holds a token when the next run is due now

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
	cut    context.CancelFunc // ends the regular run under way

	failing bool // by turn
}

func newLoop(name string, every time.Duration, log *slog.Logger, job func(context.Context) (Result, error)) *Loop {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Loop{
		name: name, every: every, job: job, log: log.With("loop", name), trouble: slog.LevelError,
		turn: make(chan struct{}, 1), soon: make(chan struct{}, 1),
	}
	l.turn <- struct{}{}
	return l
}

// Alone makes the loop do its job only while mine says that this process is the
// one among all replicas that does. Call it before Start.
func (l *Loop) Alone(mine func(context.Context) (bool, error)) *Loop {
	l.mine = mine
	return l
}

// Watch lets heard know of every run, for metrics: nil for one that did the job,
// else why it failed. Runs that were left to another replica or stopped in the
// middle are not told. Call it before Start.
func (l *Loop) Watch(heard func(err error)) *Loop {
	l.heard = heard
	return l
}

// Name is the loop's name in logs.
func (l *Loop) Name() string { return l.name }

// Start begins to run the job, at once and then regularly, until Stop. A loop
// that runs already goes on.
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

// Stop ends the loop and waits for the run under way, whose context is
// cancelled. A loop that does not run is left alone. It can be started again.
func (l *Loop) Stop() {
	l.mu.Lock()
	cancel, done := l.cancel, l.done
	l.cancel = nil
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if done != nil {
		<-done // also for a second Stop that overtakes the first
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
			again, tick = time.After(max(failsFor, min(l.every, againAfter))), nil
		} else if !done {
			again = time.After(min(l.every, againAfter))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-again:
		case <-l.soon:
		}
	}
}

// againAfter is how soon a run that failed, or was left to another replica, is tried
// again: a loop that seldom runs must not wait for long when that replica has died.
const againAfter = 10 * time.Second

// failsFor is how long a loop at least rests that failed: what it needs is away or full,
// and each try is a line in the log of whoever has it.
const failsFor = 5 * time.Second

// runOne is a regular run, which Again can end; false when it was left to another replica.
func (l *Loop) runOne(ctx context.Context) (bool, error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	l.mu.Lock()
	l.cut = cut
	l.mu.Unlock()
	_, done, err := l.once(ctx)
	return done, err // it has logged what there is to say
}

// Again ends the regular run under way and begins another one at once: what it
// stands on has changed. It never blocks; a loop that does not run is left
// alone, and begins with a run anyway.
func (l *Loop) Again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != nil {
		l.cut()
	}
	l.Soon()
}

// Soon lets the next run begin at once, or after the one under way. It never
// blocks; a loop that does not run begins with a run anyway.
func (l *Loop) Soon() {
	select {
	case l.soon <- struct{}{}:
	default:
	}
}

// RunOnce does the job once, after any run under way. A failure is logged when
// the job begins to fail, and again when it works once more, not each time.
func (l *Loop) RunOnce(ctx context.Context) (Result, error) {
	res, _, err := l.once(ctx)
	return res, err
}

// once is RunOnce, and tells whether the job was this replica's.
func (l *Loop) once(ctx context.Context) (Result, bool, error) {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return Result{}, false, ctx.Err()
	}
	defer func() { l.turn <- struct{}{} }()
	ours, err := true, error(nil)
	if l.mine != nil {
		ours, err = l.mine(ctx)
	}
	var res Result
	if ours && err == nil {
		res, err = l.job(ctx)
	}
	l.report(ctx, res, err)
	if l.heard != nil && ctx.Err() == nil && (ours || err != nil) {
		l.heard(err)
	}
	return res, ours, err
}

func (l *Loop) report(ctx context.Context, res Result, err error) {
	switch {
	case err != nil && ctx.Err() != nil: // stopped in the middle: no failure
	case err != nil && !l.failing:
		l.failing = true
		l.log.Log(ctx, l.trouble, "a loop fails and will be tried again", "every", l.every, "error", err)
	case err == nil && l.failing:
		l.failing = false
		l.log.InfoContext(ctx, "a loop works again")
	}
	if err == nil && res.Changed > 0 {
		l.log.InfoContext(ctx, res.Detail, "changed", res.Changed)
	}
}
