package mbclient

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// DefaultInterval is how often an Announcer beats.
const DefaultInterval = 10 * time.Second

// DefaultPatience is how long a membridge may be silent before the log says so.
const DefaultPatience = 8 * time.Second

// maxDetail is how much of an order's detail is reported, in bytes.
const maxDetail = 4000

// farewellLimit bounds the last word to membridge at the end of Run.
const farewellLimit = 3 * time.Second

// AnnouncerConfig is what an Announcer needs. Client and Registration are
// required; each callback may be nil.
type AnnouncerConfig struct {
	Client *Client
	// Registration is asked for at each registration, so that it may change.
	Registration func() Registration
	// Beat is asked for at each heartbeat: status, load, capabilities. The
	// Announcer fills in the rest.
	Beat func() Beat
	// Interval is how often to beat, and how long a heartbeat waits for orders at
	// most; zero means DefaultInterval.
	Interval time.Duration

	// OnRuntimeURL is told where the runtime is, and when that changes; "" when
	// membridge answers and does not know.
	OnRuntimeURL func(url string)
	// OnDrain is told whether membridge drains the worker, by its first answer and
	// when that changes.
	OnDrain func(drain bool)
	// OnCommand carries out an order in a goroutine of its own and returns a
	// detail, or the error for which it failed. Each order is carried out once in
	// the life of the Announcer. Nil: orders are reported as failed, for
	// want of a part that could carry them out.
	OnCommand func(ctx context.Context, c Command) (detail string, err error)

	// Patience is after how long without an answer the log says that it is waited
	// for, and how often again; zero means DefaultPatience.
	Patience time.Duration

	Clock bloom.Clock
	Sleep func(ctx context.Context, d time.Duration) error
	Log   *slog.Logger
}

// Announcer keeps a worker known to membridge: it registers, beats, registers
// again when membridge forgot it, and carries out its orders. Membridge being
// down harms nothing: each round simply fails.
type Announcer struct {
	cfg AnnouncerConfig

	mu         sync.Mutex
	registered bool
	target     int     // generation of the address it is registered at
	runtimeURL *string // as last told; nil before the first answer
	drain      *bool   // as last told; nil before the first answer to a heartbeat
	held       []string
	reports    []Report
	done       map[string]bool    // orders carried out and reported, not to be taken again
	cutPoll    context.CancelFunc // ends the waiting of a heartbeat under way
	failing    bool
	woken      bool // the last heartbeat brought news, or reported: the next one goes out at once

	orders sync.WaitGroup
}

// NewAnnouncer makes an Announcer; it does nothing until RunOnce or Run.
func NewAnnouncer(cfg AnnouncerConfig) *Announcer {
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Clock == nil {
		cfg.Clock = bloom.SystemClock{}
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	if cfg.Beat == nil {
		cfg.Beat = func() Beat { return Beat{} }
	}
	return &Announcer{cfg: cfg, done: map[string]bool{}}
}

// Run announces the worker until ctx ends, then waits for the orders under way
// (their context ends too), tells membridge that the worker is going, and
// returns nil.
func (a *Announcer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		began := a.cfg.Clock.Now()
		err := a.RunOnce(ctx)
		a.tell(ctx, err)
		// A membridge that does not hold heartbeats back answers at once, and one
		// that is down fails at once: neither may be asked again before its time.
		// Something to report, or to hear more of, does not wait.
		rest := a.cfg.Interval - a.cfg.Clock.Now().Sub(began)
		if rest > 0 && (err != nil || !a.pending()) {
			_ = a.idle(ctx, rest)
		}
	}
	a.orders.Wait()
	a.farewell(ctx)
	return nil
}

// RunOnce does one round: a registration when one is due, then a heartbeat,
// which waits up to the interval for orders.
func (a *Announcer) RunOnce(ctx context.Context) error {
	if err := a.register(ctx); err != nil {
		return err
	}
	beat, poll, end := a.prepare(ctx)
	defer end()
	answered := a.waitFor(poll, time.Duration(beat.WaitSec*float64(time.Second)))
	wanted, err := a.cfg.Client.AgentHeartbeat(poll, a.cfg.Registration().Name, beat)
	answered()
	switch {
	case err == nil:
		a.take(ctx, beat, wanted)
		return nil
	case poll.Err() != nil && ctx.Err() == nil:
		return nil // cut short, to report
	case IsMissing(err):
		a.mu.Lock()
		a.registered = false
		a.mu.Unlock()
		return a.register(ctx)
	}
	return err
}

// register does so when it was never done, was forgotten, or was done elsewhere.
func (a *Announcer) register(ctx context.Context) error {
	generation := a.cfg.Client.now().generation
	a.mu.Lock()
	due := !a.registered || a.target != generation
	a.mu.Unlock()
	if !due {
		return nil
	}
	r := a.cfg.Registration()
	r.IntervalSec = cmp.Or(r.IntervalSec, a.cfg.Interval.Seconds())
	answered := a.waitFor(ctx, 0)
	url, err := a.cfg.Client.RegisterAgent(ctx, r)
	answered()
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.registered, a.target = true, generation
	a.mu.Unlock()
	a.cfg.Log.Info("registered with membridge", slog.String("name", r.Name), slog.Duration("interval", a.cfg.Interval))
	a.learn(url)
	return nil
}

// waitFor says in the log that membridge does not answer for longer than asked, as
// one that hangs does not for the time of several tries; until answered is called.
func (a *Announcer) waitFor(ctx context.Context, asked time.Duration) (answered func()) {
	ctx, cancel := context.WithCancel(ctx)
	began := a.cfg.Clock.Now()
	var done sync.WaitGroup
	done.Go(func() {
		for sleep(ctx, asked+a.cfg.Patience) == nil {
			asked = 0
			a.cfg.Log.Warn("still waiting for membridge to answer", slog.String("membridge", a.cfg.Client.URL()),
				slog.Float64("seconds", a.cfg.Clock.Now().Sub(began).Round(time.Second).Seconds()))
		}
	})
	return func() { cancel(); done.Wait() }
}

// prepare makes the heartbeat, and a context that a finished order cuts short.
func (a *Announcer) prepare(ctx context.Context) (Beat, context.Context, func()) {
	beat := a.cfg.Beat()
	poll, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	beat.IntervalSec, beat.Drain = a.cfg.Interval.Seconds(), a.drain
	beat.Held, beat.Reports = slices.Clone(a.held), slices.Clone(a.reports)
	if len(beat.Reports) == 0 && a.drain != nil { // the first is answered at once, for the drain level
		beat.WaitSec = min(a.cfg.Interval.Seconds(), 60)
	}
	a.cutPoll = cancel
	return beat, poll, func() {
		a.mu.Lock()
		a.cutPoll = nil
		a.mu.Unlock()
		cancel()
	}
}

// take acts on an answer. Reports that the heartbeat carried have arrived.
func (a *Announcer) take(ctx context.Context, sent Beat, w Wanted) {
	a.mu.Lock()
	for _, r := range sent.Reports {
		a.reports = slices.DeleteFunc(a.reports, func(mine Report) bool { return mine.JobID == r.JobID })
		a.held = slices.DeleteFunc(a.held, func(id string) bool { return id == r.JobID })
	}
	var fresh []Command
	for _, c := range w.Commands {
		if !slices.Contains(a.held, c.ID) && !a.done[c.ID] {
			a.held = append(a.held, c.ID)
			fresh = append(fresh, c)
		}
	}
	drainChanged := a.drain == nil || *a.drain != w.Drain
	a.drain = &w.Drain
	// A heartbeat that reported did not wait: until the next one does, no order
	// would be heard of.
	a.woken = len(fresh) > 0 || drainChanged || len(sent.Reports) > 0
	a.mu.Unlock()

	a.learn(w.RuntimeURL)
	if drainChanged && a.cfg.OnDrain != nil {
		a.cfg.OnDrain(w.Drain)
	}
	for _, c := range fresh {
		a.orders.Go(func() { a.carryOut(ctx, c) })
	}
}

// errNoOrders is what a worker says of orders that it has no part for.
var errNoOrders = &bloom.Error{Kind: bloom.KindUnavailable, Code: "sync_unsupported",
	Message: "This worker cannot move a memory: this version of bloom worker has no part for it. Nothing was pushed or pulled"}

func (a *Announcer) carryOut(ctx context.Context, c Command) {
	report := Report{JobID: c.ID, Status: "completed"}
	detail, err := "", error(errNoOrders)
	if a.cfg.OnCommand != nil {
		detail, err = a.cfg.OnCommand(ctx, c)
	}
	if report.Detail = detail; err != nil {
		a.cfg.Log.Warn("an order of membridge's was not carried out", slog.String("order", c.Type), slog.String("project", c.Project),
			slog.String("job", c.ID), slog.Any("error", err))
		report.Status, report.Detail = "failed", cmp.Or(detail, safe(err))
	}
	// A report that membridge refuses for its length would come back for ever.
	if len(report.Detail) > maxDetail {
		report.Detail = strings.ToValidUTF8(report.Detail[:maxDetail], "")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reports = append(a.reports, report)
	a.done[c.ID] = true
	if a.cutPoll != nil {
		a.cutPoll()
	}
}

// safe is an error's sentence for membridge's history: ours may be told, others
// only in the log.
func safe(err error) string {
	var e *bloom.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "The order failed; the worker's log has the details"
}

// learn passes the runtime's address on when it is news. That it is not known any
// more is none: it was somewhere a moment ago.
func (a *Announcer) learn(url string) {
	a.mu.Lock()
	news := a.runtimeURL == nil || url != "" && url != *a.runtimeURL
	if news {
		a.runtimeURL = &url
	}
	a.mu.Unlock()
	if news && a.cfg.OnRuntimeURL != nil {
		a.cfg.OnRuntimeURL(url)
	}
}

// pending reports whether the next heartbeat should go out at once: there is
// something to report, or news came, and a waiting heartbeat must be out for the
// next to come as quickly.
func (a *Announcer) pending() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.reports) > 0 || a.woken
}

// idle waits out the round; a finished order ends it.
func (a *Announcer) idle(ctx context.Context, d time.Duration) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	a.cutPoll = cancel
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.cutPoll = nil
		a.mu.Unlock()
	}()
	return a.cfg.Sleep(waiting, d)
}

// tell logs the first failure of a row, and its end.
func (a *Announcer) tell(ctx context.Context, err error) {
	a.mu.Lock()
	before := a.failing
	a.failing = err != nil
	a.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil && !before:
		a.cfg.Log.Warn(trouble(err), slog.Any("error", err))
	case err == nil && before:
		a.cfg.Log.Info("membridge answers again")
	}
}

// trouble tells a membridge that says no from one that says nothing.
func trouble(err error) string {
	var refused *StatusError
	var e *bloom.Error
	if errors.As(err, &refused) || errors.As(err, &e) && e.Code == bloom.CodeMembridgeForbidden {
		return "membridge refuses this worker; it is asked again and again"
	}
	return "membridge does not answer; it is asked again and again"
}

// farewell makes the worker offline at once instead of after three intervals.
func (a *Announcer) farewell(ctx context.Context) {
	a.mu.Lock()
	registered, reports := a.registered, slices.Clone(a.reports)
	a.mu.Unlock()
	if !registered {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellLimit)
	defer cancel()
	_, err := a.cfg.Client.AgentHeartbeat(last, a.cfg.Registration().Name, Beat{Status: bloom.WorkerOffline, Reports: reports})
	if err != nil {
		a.cfg.Log.Debug("membridge was not told that this worker stops", slog.Any("error", err))
	}
}
