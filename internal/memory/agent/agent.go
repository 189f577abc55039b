// Package agent synchronizes a node's memory of one project in the background, executes
// membridge's commands, reports the memory's state to membridge, and copies membridge's
// selection of the primary to the leadership lease. It knows neither tasks nor claude.
package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// DefaultInterval is how often an Agent sends a heartbeat.
const DefaultInterval = 10 * time.Second

// Config is what an Agent needs. Memory is required.
type Config struct {
	Memory *memory.Project
	// Membridge is the control plane. It may be nil, or have no address.
	Membridge *mbclient.Client
	// Every is how often the memory is synchronized; 0 means only on request.
	Every time.Duration
	// Interval is the time between heartbeats; zero means DefaultInterval.
	Interval time.Duration
	// IPAddrs and Version are reported to membridge.
	IPAddrs func() []string
	Version string

	Log *slog.Logger // slog.Default() when nil
}

// Agent synchronizes one project's memory on this node. Its methods are safe for
// concurrent use.
type Agent struct {
	cfg    Config
	log    *slog.Logger
	syncer *memory.Syncer
	meter  *memory.Meter
	turn   chan struct{} // semaphore: one push or pull at a time
	wake   chan struct{} // signalled when the role changes

	mu       sync.Mutex
	followed mbclient.Term // the selection that the lease has
	role     string        // the last one from membridge
	failing  bool          // heartbeats fail
}

// New makes an Agent. It does nothing before Run.
func New(cfg Config) *Agent {
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.IPAddrs == nil {
		cfg.IPAddrs = func() []string { return nil }
	}
	return &Agent{cfg: cfg, log: cfg.Log.With(slog.String("project", cfg.Memory.Project)), syncer: &memory.Syncer{Project: cfg.Memory},
		meter: memory.NewMeter(cfg.Memory), turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// Run runs the agent until ctx ends. An interrupted push or pull does no harm.
func (a *Agent) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { a.measure(ctx) })
	all.Go(func() { a.sendHeartbeats(ctx) })
	if a.cfg.Every > 0 {
		all.Go(func() { a.syncLoop(ctx) })
	}
	all.Wait()
}

// Facts returns the memory's state for a worker's own heartbeat, nil before the first
// measurement.
func (a *Agent) Facts() (observations *int64, sha *string) {
	f, ok := a.meter.Facts()
	if !ok {
		return nil, nil
	}
	return &f.Observations, &f.SHA256
}

func (a *Agent) measure(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := a.meter.Measure(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			a.log.Warn("the memory cannot be read; see bloom memory doctor", slog.Any("error", err))
		}
		failing = err != nil
		_ = retry.Sleep(ctx, a.cfg.Interval) // its error ends the loop
	}
}

// sendHeartbeats sends heartbeats once membridge's address is known.
func (a *Agent) sendHeartbeats(ctx context.Context) {
	for a.cfg.Membridge != nil && ctx.Err() == nil {
		if a.cfg.Membridge.URL() != "" {
			a.logHeartbeat(ctx, a.heartbeat(ctx))
		}
		_ = retry.Sleep(ctx, a.cfg.Interval) // its error ends the loop
	}
}

// logHeartbeat logs the first of several failures, and the first success after them.
func (a *Agent) logHeartbeat(ctx context.Context, err error) {
	a.mu.Lock()
	before := a.failing
	a.failing = err != nil
	a.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil && !before:
		a.log.Warn("membridge's selection could not be copied to the lease in the bucket; retrying", slog.Any("error", err))
	case err == nil && before:
		a.log.Info("membridge and the lease in the bucket agree again")
	}
}

// heartbeat reports the memory's state to membridge, and copies its selection to the
// lease.
func (a *Agent) heartbeat(ctx context.Context) error {
	observations, sha := a.Facts()
	m := a.cfg.Memory
	leadership, err := a.cfg.Membridge.NodeHeartbeat(ctx, mbclient.NodeHeartbeat{NodeID: m.Node, CanonicalID: m.ID(), ProjectID: m.Project,
		ObsCount: observations, DBSHA: sha, IPAddrs: a.cfg.IPAddrs(), AgentVersion: a.cfg.Version})
	if err != nil {
		return err
	}
	if err := a.follow(ctx, leadership); err != nil {
		return err
	}
	a.setRole(leadership.Role)
	return nil
}

// follow copies membridge's selection to the lease. When the selection has expired, the
// last primary stays primary.
func (a *Agent) follow(ctx context.Context, s mbclient.Leadership) error {
	if s.Term == nil || s.Role == "unknown" || a.cfg.Memory.IgnoreLeadership {
		return nil
	}
	a.mu.Lock()
	known := a.followed == *s.Term
	a.mu.Unlock()
	if known {
		return nil
	}
	lease, changed, err := a.cfg.Memory.Follow(ctx, memory.Selection{Primary: s.Term.PrimaryNodeID, Epoch: s.Term.Epoch,
		At: seconds(s.Term.IssuedAt), Until: seconds(s.Term.ExpiresAt), By: s.Term.IssuedBy})
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.followed = *s.Term
	a.mu.Unlock()
	switch {
	case changed:
		a.log.Info("membridge selected the primary", slog.String("primary", lease.PrimaryNode), slog.Int64("epoch", lease.Epoch))
	case lease.PrimaryNode != s.Term.PrimaryNodeID:
		a.log.Warn("push and pull obey a later selection than membridge's; select the primary again in membridge",
			slog.String("primary", lease.PrimaryNode), slog.String("membridge", s.Term.PrimaryNodeID))
	}
	return nil
}

func seconds(s float64) time.Time { return time.UnixMilli(int64(s*1000 + 0.5)) }

// setRole records the role, and starts a synchronization when it has changed.
func (a *Agent) setRole(role string) {
	a.mu.Lock()
	before := a.role
	a.role = role
	a.mu.Unlock()
	if before == role || before == "" {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default: // already signalled
	}
}

// acquire waits until no other push or pull of this agent is running.
func (a *Agent) acquire(ctx context.Context) (release func(), err error) {
	select {
	case a.turn <- struct{}{}:
		return func() { <-a.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// firstWait is the wait after a failed synchronization; it doubles up to Config.Every.
const firstWait = 5 * time.Second

// syncLoop synchronizes the memory at once, then every Config.Every and when the role
// changes. Jitter spreads the nodes that were started together.
func (a *Agent) syncLoop(ctx context.Context) {
	regular := retry.Policy{First: a.cfg.Every, Jitter: 0.2}.Waits()
	var failed func() time.Duration // nil while synchronization succeeds
	for ctx.Err() == nil {
		err := a.syncOnce(ctx)
		wait := regular
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && failed == nil:
			failed = retry.Policy{First: min(firstWait, a.cfg.Every), Max: a.cfg.Every, Jitter: 0.3}.Waits()
			a.log.Warn("the memory could not be synchronized; retrying", slog.Any("error", err))
			wait = failed
		case err != nil:
			wait = failed
		case failed != nil:
			failed = nil
			a.log.Info("the memory is synchronized again")
		}
		timer := time.NewTimer(wait())
		select {
		case <-timer.C:
		case <-a.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (a *Agent) syncOnce(ctx context.Context) error {
	release, err := a.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Memory.LockTTL)
	defer cancel()
	did, err := a.syncer.Sync(ctx)
	if errors.As(err, new(*memory.LostError)) {
		a.mu.Lock()
		a.followed = mbclient.Term{} // the next heartbeat copies membridge's selection again
		a.mu.Unlock()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errTooLong
	}
	switch {
	case did.Pushed != nil:
		a.log.Info("memory pushed", slog.Int64("observations", did.Pushed.Observations), slog.Int64("bytes", did.Pushed.Size), slog.String("sha256", did.Pushed.SHA256))
	case did.Pulled != nil:
		a.log.Info("memory pulled", slog.String("from", did.Pulled.SourceHost), slog.Int64("observations", did.Pulled.Observations),
			slog.Int64("bytes", did.Pulled.Size), slog.String("backup", did.Pulled.Backup))
	}
	return err
}
