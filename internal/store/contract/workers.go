package contract

import (
	"cmp"
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// MaxWorkerName is the longest name of a worker, in characters.
const MaxWorkerName = 128

// WorkerStore keeps the registered workers.
type WorkerStore interface {
	// RegisterWorker creates or updates a worker; created reports which. ErrWorkerConflict when
	// another live instance has the name.
	RegisterWorker(ctx context.Context, w bloom.WorkerSpec, actor string) (worker bloom.Worker, created bool, err error)
	Worker(ctx context.Context, id string) (bloom.Worker, []bloom.Lease, error)
	// Workers lists all workers by name, with their active leases counted.
	Workers(ctx context.Context) ([]bloom.Worker, error)
	// WorkersAfter lists at most n workers whose names follow name, as Workers does.
	WorkersAfter(ctx context.Context, name string, n int) ([]bloom.Worker, error)
	// RemoveWorker removes a worker and releases its active leases. The worker comes back when it
	// calls RegisterWorker or registers again at the control plane.
	RemoveWorker(ctx context.Context, id, actor string) error
	// DrainWorker drains or undrains a worker at the runtime. A worker takes no work while the
	// runtime or the control plane drains it.
	DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error)
	// FollowDrain records whether the control plane drains a worker.
	FollowDrain(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error)
	// ControlDrained returns the workers that the control plane drains, as last reported by it.
	ControlDrained(ctx context.Context) ([]string, error)
	// SyncWorkers upserts the workers that the control plane reports. A removed worker stays
	// removed until it registers there again (WorkerReport.PostedAt). Leases and draining are never
	// touched.
	SyncWorkers(ctx context.Context, reports []WorkerReport) (changed int, err error)
	// MarkSilent sets workers offline that have been silent for longer than d and returns how many.
	MarkSilent(ctx context.Context, d time.Duration) (int, error)
	// ReportLogs stores the last log lines of a worker; ErrWorkerNotFound.
	ReportLogs(ctx context.Context, id string, r bloom.LogReport) error
	// WorkerLogs returns the last lines that a worker reported; ErrWorkerNotFound.
	WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error)
}

// Values shown for what a worker did not report.
const (
	UnknownVersion = "unknown"
	UnknownInstall = "manual"
)

// WorkerReport is what the control plane reports about a worker.
type WorkerReport struct {
	Name          string
	URL           string
	Status        bloom.WorkerStatus
	Capabilities  *bloom.Capabilities // nil: unknown, keep what is stored
	PostedAt      int64               // when it last registered there, by that clock and in any unit; 0: unknown
	LastSeen      int64               // Unix milliseconds; 0: unknown, then being listed counts as contact unless offline
	IPAddrs       []string
	ObsCount      bloom.ObsCount // 0: unknown
	DBSHA         string
	AgentVersion  string
	OSInfo        string
	InstallMethod string
}

// JoinLines returns the last lines after a report: those of earlier instances, then those of the
// reporting one.
func JoinLines(was []bloom.LogLine, r bloom.LogReport) []bloom.LogLine {
	lines := make([]bloom.LogLine, 0, bloom.MaxLogLines)
	for _, l := range was {
		if l.InstanceID != r.InstanceID {
			lines = append(lines, l)
		}
	}
	for _, l := range r.Lines {
		l.InstanceID = r.InstanceID
		l.Text = storable.Cut(storable.Text(l.Text), bloom.MaxLogLine)
		l.Level = storable.Cut(cmp.Or(storable.Text(l.Level), "INFO"), 16)
		lines = append(lines, l)
	}
	return lines[max(0, len(lines)-bloom.MaxLogLines):]
}
