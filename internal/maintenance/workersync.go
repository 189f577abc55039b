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
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// DefaultSyncEvery is how often workers are read from the control plane.
const DefaultSyncEvery = 10 * time.Second

const (
	// syncBatch is the maximum number of workers in one transaction, so that thousands of
	// workers do not delay leases and completions.
	syncBatch = 200
	// ancientContact is a last contact so old that the worker counts as offline.
	ancientContact = 1
)

// Agent is a worker as the control plane reports it.
type Agent struct {
	// WorkerReport's LastSeen is ignored, because it is not by the store's clock.
	contract.WorkerReport
	// HeartbeatAt is the time of its last heartbeat by the control plane's clock, in any
	// unit, 0 if it never sent one. It is only compared with its previous value.
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
	SyncWorkers(ctx context.Context, reports []contract.WorkerReport) (changed int, err error)
	FollowDrain(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error)
	ControlDrained(ctx context.Context) ([]string, error)
}

// WorkerSyncConfig is what WorkerSync needs. Store and ControlPlane are required.
type WorkerSyncConfig struct {
	Store        ReportedWorkers
	ControlPlane ControlPlane
	Logger       *slog.Logger  // discards when nil
	Every        time.Duration // DefaultSyncEvery when 0
}

type workerSync struct {
	WorkerSyncConfig
	heartbeats map[string]int64 // by name, as last reported
}

// NewWorkerSync makes the loop that copies the control plane's agents to the workers (seed
// 001, "Worker Auto-Sync from Membridge"). A worker that sends heartbeats to the control
// plane is alive while it sends them; one that never sent any is alive while the control
// plane lists it. If the control plane fails, nothing changes until a worker had no contact
// from any side for too long.
func NewWorkerSync(c WorkerSyncConfig) *Loop {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w := &workerSync{WorkerSyncConfig: c, heartbeats: map[string]int64{}}
	every := cmp.Or(c.Every, DefaultSyncEvery)
	// Slightly more often, so that changes are known within the interval.
	l := newLoop("worker-sync", every-every/20, c.Logger, w.once)
	l.failureLevel = slog.LevelWarn // the runtime works without a control plane
	return l
}

func (w *workerSync) once(ctx context.Context) (res Result, err error) {
	agents, err := w.ControlPlane.ReadAgents(ctx)
	if err != nil {
		return res, err
	}
	if n := len(agents); n > bloom.MaxWorkers {
		w.Logger.WarnContext(ctx, "ignoring agents of the control plane beyond the maximum number of workers", "agents", n, "max", bloom.MaxWorkers)
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
		res.Detail = fmt.Sprintf("updated %d workers from the control plane", res.Changed)
	}
	w.saveHeartbeats(agents)
	return res, w.drain(ctx, agents)
}

// drain copies which workers the control plane drains. Workers that it does not list are
// not drained there.
func (w *workerSync) drain(ctx context.Context, agents []Agent) error {
	names, err := w.Store.ControlDrained(ctx)
	if err != nil {
		return err
	}
	change := make(map[string]bool, len(names)) // changes to make, by worker
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

// reports returns a report for each agent. It compares heartbeats only with earlier ones,
// never with this server's clock, which may be hours off.
func (w *workerSync) reports(agents []Agent) []contract.WorkerReport {
	out := make([]contract.WorkerReport, 0, len(agents))
	for _, a := range agents {
		r := a.WorkerReport
		r.LastSeen = 0
		if before, known := w.heartbeats[r.Name]; known && a.HeartbeatAt != 0 && a.HeartbeatAt == before {
			r.LastSeen = ancientContact
		}
		out = append(out, r)
	}
	return out
}

// saveHeartbeats keeps the heartbeats of the listed agents only.
func (w *workerSync) saveHeartbeats(agents []Agent) {
	clear(w.heartbeats)
	for _, a := range agents {
		w.heartbeats[a.Name] = a.HeartbeatAt
	}
}
