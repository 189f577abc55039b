package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

// DefaultSyncEvery is how often workers are read from the control plane.
const DefaultSyncEvery = 10 * time.Second

const (
	// syncBatch bounds one transaction of the sync, so that a fleet of thousands
	// does not hold up those who lease and complete.
	syncBatch = 200
	// longAgo is a contact that makes nobody seem alive.
	longAgo = 1
)

// Agent is a worker as the control plane reports it.
type Agent struct {
	// WorkerReport says what is known of it. Its LastSeen is not used: the clock
	// behind it is not the store's.
	bloom.WorkerReport
	// HeartbeatAt is the time of its last heartbeat by the control plane's clock, in any unit, 0 when
	// it never did. It is only compared with what it was before.
	HeartbeatAt int64
	// Drain is whether the control plane drains it.
	Drain bool
}

// ControlPlane lists the agents.
type ControlPlane interface {
	ReadAgents(ctx context.Context) ([]Agent, error)
}

// ReportedWorkers is what WorkerSync needs of a store.
type ReportedWorkers interface {
	SyncWorkers(ctx context.Context, reports []bloom.WorkerReport) (changed int, err error)
	FollowDrain(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error)
	ControlDrained(ctx context.Context) ([]string, error)
}

// WorkerSyncConfig is what WorkerSync needs. Store and ControlPlane are required.
type WorkerSyncConfig struct {
	Store        ReportedWorkers
	ControlPlane ControlPlane
	Logger       *slog.Logger  // discards when nil
	Every        time.Duration // a change is known within this; DefaultSyncEvery when 0
}

type workerSync struct {
	WorkerSyncConfig
	heartbeats map[string]int64 // by name, as last reported
}

// NewWorkerSync makes the loop that takes over what the control plane knows of
// workers (seed 001, "Worker Auto-Sync from Membridge"). One that it names and
// that never sent a heartbeat is alive for as long as it is named; one that does is alive
// while its heartbeats go on. A control plane that fails harms nothing: what is known
// stays, until a worker was silent on all sides for too long.
func NewWorkerSync(c WorkerSyncConfig) *Loop {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w := &workerSync{WorkerSyncConfig: c, heartbeats: map[string]int64{}}
	every := cmp.Or(c.Every, DefaultSyncEvery)
	// A little sooner, so that what is posted is known before that time is over.
	l := newLoop("worker-sync", every-every/20, c.Logger, w.once)
	// The runtime works in full without a control plane: that there is none is
	// no error of its own.
	l.trouble = slog.LevelWarn
	return l
}

func (w *workerSync) once(ctx context.Context) (res Result, err error) {
	agents, err := w.ControlPlane.ReadAgents(ctx)
	if err != nil {
		return res, err
	}
	if n := len(agents); n > bloom.MaxWorkers {
		w.Logger.WarnContext(ctx, "the control plane reports more agents than there may be workers; the rest is left out", "agents", n, "most", bloom.MaxWorkers)
		agents = agents[:bloom.MaxWorkers]
	}
	for i := range agents {
		input.Normalize(&agents[i])
	}
	for batch := range slices.Chunk(w.reports(agents), syncBatch) {
		n, err := w.Store.SyncWorkers(ctx, batch)
		if err != nil {
			return res, err
		}
		res.Changed += n
		res.Detail = fmt.Sprintf("%d workers changed by what the control plane reports", res.Changed)
	}
	w.remember(agents)
	return res, w.drain(ctx, agents)
}

// drain takes over whom the control plane drains. One that it does not know is not
// drained there.
func (w *workerSync) drain(ctx context.Context, agents []Agent) error {
	names, err := w.Store.ControlDrained(ctx)
	if err != nil {
		return err
	}
	change := make(map[string]bool, len(names)) // what differs, by worker
	for _, name := range names {
		change[name] = false
	}
	for _, a := range agents {
		if _, drained := change[a.Name]; a.Drain && !drained {
			change[a.Name] = true
		} else if a.Drain {
			delete(change, a.Name)
		}
	}
	var failed error
	for name, drain := range change {
		if _, err := w.Store.FollowDrain(ctx, name, drain, "membridge"); err != nil && !errors.Is(err, bloom.ErrWorkerNotFound) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// reports says of each agent whether anything was heard of it. Its heartbeats are
// compared with each other and never with our clock, which may be hours off.
func (w *workerSync) reports(agents []Agent) []bloom.WorkerReport {
	out := make([]bloom.WorkerReport, 0, len(agents))
	for _, a := range agents {
		r := a.WorkerReport
		r.LastSeen = 0
		if before, known := w.heartbeats[r.Name]; known && a.HeartbeatAt != 0 && a.HeartbeatAt == before {
			r.LastSeen = longAgo
		}
		out = append(out, r)
	}
	return out
}

// remember keeps the heartbeats only of those who were named: names come and go.
func (w *workerSync) remember(agents []Agent) {
	clear(w.heartbeats)
	for _, a := range agents {
		w.heartbeats[a.Name] = a.HeartbeatAt
	}
}
