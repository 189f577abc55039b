// Package announce registers a worker at membridge, the control plane: it sends heartbeats,
// registers again when membridge no longer knows the worker, and carries out membridge's
// instructions.
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

// DefaultPatience is how long membridge may be silent before a warning is logged.
const DefaultPatience = 8 * time.Second

// offlineTimeout bounds the last heartbeat at the end of Run.
const offlineTimeout = 3 * time.Second

// The outcomes of a command.
const (
	Completed = "completed"
	Failed    = "failed"
)

// Config configures an Announcer. Client and Registration are required; each callback may be nil.
// All but Execute are called on the goroutine of Run.
type Config struct {
	Client *mbclient.Client
	// Registration is called for each registration, so that it may change.
	Registration func() mbclient.Registration
	// Heartbeat is called for each heartbeat and returns status, load and capabilities. The
	// Announcer fills in the rest.
	Heartbeat func() mbclient.Heartbeat
	// Interval is the time between heartbeats, and the longest that membridge may hold a heartbeat
	// to wait for instructions; zero means DefaultInterval.
	Interval time.Duration

	// OnRuntimeURL is called with the runtime's URL when it changes, and with "" when the first
	// response does not name it.
	OnRuntimeURL func(url string)
	// OnDrain is called with whether membridge drains the worker: after the first heartbeat, and on
	// changes.
	OnDrain func(drain bool)

	// Execute carries out a command, on its own goroutine, and returns its report, whose id may be
	// empty. It must return soon after ctx ends. When nil, every command fails.
	Execute func(ctx context.Context, c mbclient.Command) mbclient.Report

	// Keyless means that a membridge that requires a key is not meant for this worker, which is not
	// worth a warning.
	Keyless bool
	// Patience is how long membridge may be silent before, and between, warnings in the log; zero
	// means DefaultPatience.
	Patience time.Duration
	Log      *slog.Logger // slog.Default() when nil
}

// Announcer keeps one worker registered at membridge. While membridge is down each round fails,
// which does no harm. Run and RunOnce must not be called concurrently.
type Announcer struct {
	cfg        Config
	target     string            // the address where it is registered; "" when it is not
	runtimeURL *string           // nil before the first response
	drain      *bool             // nil before the first response to a heartbeat
	reports    []mbclient.Report // not yet acknowledged
	commands   *commands
	urgent     bool // send the next heartbeat immediately
	failing    bool
}

// New returns an Announcer, which does nothing until RunOnce or Run.
func New(cfg Config) *Announcer {
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Heartbeat == nil {
		cfg.Heartbeat = func() mbclient.Heartbeat { return mbclient.Heartbeat{} }
	}
	if cfg.Execute == nil {
		cfg.Execute = refuse
	}
	return &Announcer{cfg: cfg, commands: newCommands(cfg.Execute, cfg.Log)}
}

// Run announces the worker until ctx ends. Then it waits for the commands in progress, whose
// context has ended, too, reports the worker offline, and returns.
func (a *Announcer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		err := a.RunOnce(ctx)
		a.logOutcome(ctx, err)
		// Wait for the next interval, also after a failure or a response that membridge did not
		// hold back. Something urgent does not wait: no instructions arrive until the next
		// heartbeat.
		if err != nil || !a.urgent {
			_ = retry.Sleep(ctx, a.cfg.Interval-time.Since(began)) // the loop ends with ctx
		}
	}
	a.commands.all.Wait()
	ended, _ := a.commands.take()
	a.reports = append(a.reports, ended...)
	a.reportOffline(ctx)
}

// RunOnce registers the worker if necessary, then sends a heartbeat, which membridge may hold for
// up to the interval.
func (a *Announcer) RunOnce(ctx context.Context) error {
	if err := a.register(ctx); err != nil {
		return err
	}
	h := a.cfg.Heartbeat()
	ended, held := a.commands.take()
	a.reports, h.Held = append(a.reports, ended...), held
	h.IntervalSec, h.Drain, h.Reports = a.cfg.Interval.Seconds(), a.drain, slices.Clone(a.reports)
	if len(h.Reports) == 0 && a.drain != nil { // the first must not wait: it returns whether the worker is drained
		h.WaitSec = min(a.cfg.Interval.Seconds(), 60)
	}
	stopWarning := a.logSilence(ctx, time.Duration(h.WaitSec*float64(time.Second)))
	waiting, release := a.commands.cancelWhenOneEnds(ctx)
	instructions, err := a.cfg.Client.AgentHeartbeat(waiting, a.cfg.Registration().Name, h)
	interrupted := release()
	stopWarning()
	switch {
	case err == nil:
		a.apply(ctx, h, instructions)
		a.urgent = a.urgent || interrupted
		return nil
	case interrupted && ctx.Err() == nil:
		a.urgent = true // cancelled in order to send a report
		return nil
	case mbclient.IsMissing(err): // commands in progress continue
		a.target = ""
		return a.register(ctx)
	}
	return err
}

// register registers the worker unless it is registered at the current address.
func (a *Announcer) register(ctx context.Context) error {
	target := a.cfg.Client.URL()
	if a.target != "" && a.target == target {
		return nil
	}
	r := a.cfg.Registration()
	r.IntervalSec = cmp.Or(r.IntervalSec, a.cfg.Interval.Seconds())
	stopWarning := a.logSilence(ctx, 0)
	url, err := a.cfg.Client.RegisterAgent(ctx, r)
	stopWarning()
	if err != nil {
		return err
	}
	a.target = target
	a.cfg.Log.Info("registered with membridge", slog.String("name", r.Name), slog.Duration("interval", a.cfg.Interval))
	a.setRuntimeURL(url)
	return nil
}

// apply follows the instructions in a response. The reports that the heartbeat sent have arrived.
func (a *Announcer) apply(ctx context.Context, sent mbclient.Heartbeat, w mbclient.Instructions) {
	a.reports = slices.DeleteFunc(a.reports, func(r mbclient.Report) bool { return slices.Contains(sent.Reports, r) })
	for _, c := range w.Commands {
		a.commands.start(ctx, c)
	}
	drainChanged := a.drain == nil || *a.drain != w.Drain
	a.drain = &w.Drain
	a.urgent = len(sent.Reports) > 0 || len(a.reports) > 0 || len(w.Commands) > 0 || drainChanged
	a.setRuntimeURL(w.RuntimeURL)
	if drainChanged && a.cfg.OnDrain != nil {
		a.cfg.OnDrain(w.Drain)
	}
}

// refuse is the default of Config.Execute.
func refuse(context.Context, mbclient.Command) mbclient.Report {
	return mbclient.Report{Status: Failed, Detail: "This worker does not carry out commands. Nothing was pushed or pulled"}
}

// setRuntimeURL reports a changed URL of the runtime. An empty one is ignored: the runtime is
// probably where it was.
func (a *Announcer) setRuntimeURL(url string) {
	if a.runtimeURL != nil && (url == "" || url == *a.runtimeURL) {
		return
	}
	a.runtimeURL = &url
	if a.cfg.OnRuntimeURL != nil {
		a.cfg.OnRuntimeURL(url)
	}
}

// reportOffline sets the worker offline immediately instead of after three intervals.
func (a *Announcer) reportOffline(ctx context.Context) {
	if a.target == "" {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), offlineTimeout)
	defer cancel()
	_, err := a.cfg.Client.AgentHeartbeat(last, a.cfg.Registration().Name, mbclient.Heartbeat{Status: bloom.WorkerOffline, Reports: a.reports})
	if err != nil {
		a.cfg.Log.Debug("could not report the stop of this worker to membridge", slog.Any("error", err))
	}
}
