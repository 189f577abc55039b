// Package announce keeps a worker known to membridge, the control plane: it registers,
// sends heartbeats, registers again when membridge forgot the worker, and passes on what
// membridge wants of it.
package announce

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// DefaultInterval is how often an Announcer sends a heartbeat.
const DefaultInterval = 10 * time.Second

// DefaultPatience is how long a membridge may be silent before the log says so.
const DefaultPatience = 8 * time.Second

// farewellLimit bounds the last heartbeat at the end of Run.
const farewellLimit = 3 * time.Second

// The outcomes of a command.
const (
	Completed = "completed"
	Failed    = "failed"
)

// Config is what an Announcer needs. Client and Registration are required; each
// callback may be nil. They are called by the goroutine of Run, but for Carry.
type Config struct {
	Client *mbclient.Client
	// Registration is asked for at each registration, so that it may change.
	Registration func() mbclient.Registration
	// Beat is asked for at each heartbeat: status, load, capabilities. The
	// Announcer fills in the rest.
	Beat func() mbclient.Beat
	// Interval is the time between heartbeats, and the longest that a heartbeat waits
	// for news; zero means DefaultInterval.
	Interval time.Duration

	// OnRuntimeURL is called with the runtime's address when it changes, and with ""
	// when the first answer does not name it.
	OnRuntimeURL func(url string)
	// OnDrain is called with whether membridge drains the worker: after the first
	// heartbeat, and when that changes.
	OnDrain func(drain bool)

	// Carry carries out a command, in a goroutine of its own, and returns its report,
	// whose id may be empty. It returns soon after ctx ends. Nil: every command fails.
	Carry func(ctx context.Context, c mbclient.Command) mbclient.Report

	// Patience is after how long without an answer the log says that it is waited
	// for, and how often again; zero means DefaultPatience.
	Patience time.Duration
	Log      *slog.Logger // slog.Default() when nil
}

// Announcer keeps one worker known to membridge. Membridge being down harms nothing:
// each round simply fails. Run and RunOnce are for one goroutine.
type Announcer struct {
	cfg        Config
	target     string            // the address it is registered at; "" when it is not
	runtimeURL *string           // nil before the first answer
	drain      *bool             // nil before the first answer to a heartbeat
	reports    []mbclient.Report // not yet acknowledged
	commands   *commands
	news       bool // the next heartbeat goes out at once
	failing    bool
}

// New makes an Announcer; it does nothing until RunOnce or Run.
func New(cfg Config) *Announcer {
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Beat == nil {
		cfg.Beat = func() mbclient.Beat { return mbclient.Beat{} }
	}
	if cfg.Carry == nil {
		cfg.Carry = refuse
	}
	return &Announcer{cfg: cfg, commands: newCommands(cfg.Carry, cfg.Log)}
}

// Run announces the worker until ctx ends, then waits for the commands under way, whose
// context has ended too, tells membridge that the worker goes offline, and returns.
func (a *Announcer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		err := a.RunOnce(ctx)
		a.logOutcome(ctx, err)
		// A membridge that does not hold heartbeats back answers at once, and one that
		// is down fails at once: neither is asked again before its time. News does not
		// wait: until a waiting heartbeat is out, no more would be heard.
		if err != nil || !a.news {
			_ = retry.Sleep(ctx, a.cfg.Interval-time.Since(began)) // its error ends the loop
		}
	}
	a.commands.all.Wait()
	ended, _ := a.commands.take()
	a.reports = append(a.reports, ended...)
	a.farewell(ctx)
}

// RunOnce does one round: a registration when one is due, then a heartbeat, which waits
// up to the interval for news.
func (a *Announcer) RunOnce(ctx context.Context) error {
	if err := a.register(ctx); err != nil {
		return err
	}
	beat := a.cfg.Beat()
	ended, held := a.commands.take()
	a.reports, beat.Held = append(a.reports, ended...), held
	beat.IntervalSec, beat.Drain, beat.Reports = a.cfg.Interval.Seconds(), a.drain, slices.Clone(a.reports)
	if len(beat.Reports) == 0 && a.drain != nil { // the first is answered at once, for the drain level
		beat.WaitSec = min(a.cfg.Interval.Seconds(), 60)
	}
	answered := a.logSilence(ctx, time.Duration(beat.WaitSec*float64(time.Second)))
	waiting, release := a.commands.untilOneEnds(ctx)
	wanted, err := a.cfg.Client.AgentHeartbeat(waiting, a.cfg.Registration().Name, beat)
	ring := release()
	answered()
	switch {
	case err == nil:
		a.take(ctx, beat, wanted)
		a.news = a.news || ring
		return nil
	case ring && ctx.Err() == nil:
		a.news = true // the heartbeat was cut short to report
		return nil
	case mbclient.IsMissing(err): // what is under way goes on
		a.target = ""
		return a.register(ctx)
	}
	return err
}

// register does so when it was never done, was forgotten, or was done elsewhere.
func (a *Announcer) register(ctx context.Context) error {
	target := a.cfg.Client.URL()
	if a.target != "" && a.target == target {
		return nil
	}
	r := a.cfg.Registration()
	r.IntervalSec = cmp.Or(r.IntervalSec, a.cfg.Interval.Seconds())
	answered := a.logSilence(ctx, 0)
	url, err := a.cfg.Client.RegisterAgent(ctx, r)
	answered()
	if err != nil {
		return err
	}
	a.target = target
	a.cfg.Log.Info("registered with membridge", slog.String("name", r.Name), slog.Duration("interval", a.cfg.Interval))
	a.learn(url)
	return nil
}

// take acts on an answer. Reports that the heartbeat carried have arrived.
func (a *Announcer) take(ctx context.Context, sent mbclient.Beat, w mbclient.Wanted) {
	a.reports = slices.DeleteFunc(a.reports, func(r mbclient.Report) bool { return slices.Contains(sent.Reports, r) })
	for _, c := range w.Commands {
		a.commands.start(ctx, c)
	}
	drainChanged := a.drain == nil || *a.drain != w.Drain
	a.drain = &w.Drain
	a.news = len(sent.Reports) > 0 || len(a.reports) > 0 || len(w.Commands) > 0 || drainChanged
	a.learn(w.RuntimeURL)
	if drainChanged && a.cfg.OnDrain != nil {
		a.cfg.OnDrain(w.Drain)
	}
}

// refuse is the outcome where nobody carries commands out.
func refuse(context.Context, mbclient.Command) mbclient.Report {
	return mbclient.Report{Status: Failed, Detail: "Nothing here carries out commands. Nothing was pushed or pulled"}
}

// learn passes the runtime's address on when it is news. That it is not known any
// more is none: it was somewhere a moment ago.
func (a *Announcer) learn(url string) {
	if a.runtimeURL != nil && (url == "" || url == *a.runtimeURL) {
		return
	}
	a.runtimeURL = &url
	if a.cfg.OnRuntimeURL != nil {
		a.cfg.OnRuntimeURL(url)
	}
}

// farewell makes the worker offline at once instead of after three intervals.
func (a *Announcer) farewell(ctx context.Context) {
	if a.target == "" {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellLimit)
	defer cancel()
	_, err := a.cfg.Client.AgentHeartbeat(last, a.cfg.Registration().Name, mbclient.Beat{Status: bloom.WorkerOffline, Reports: a.reports})
	if err != nil {
		a.cfg.Log.Debug("membridge was not told that this worker stops", slog.Any("error", err))
	}
}
