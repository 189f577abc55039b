package contract

import (
	"cmp"
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
)

// LeaseRequest asks to lease one task now.
type LeaseRequest struct {
	TaskID   string
	WorkerID string // empty: the store picks
	TTLSec   int    // 0: DefaultLeaseTTLSec
	Actor    string
}

// ClaimRequest is one poll of a worker: it renews the leases the worker holds, reports which are
// lost or must be cancelled, and takes new tasks.
type ClaimRequest struct {
	WorkerID   string
	InstanceID string   // of the process; another live instance is ErrWorkerConflict
	MustName   bool     // an empty InstanceID is ErrWorkerConflict while a known instance is alive
	Max        int      // new tasks wanted, 0 for none; never more than the worker's free capacity
	TTLSec     int      // of new leases; 0: DefaultLeaseTTLSec
	Held       []string // lease ids the worker holds
	// Usage is what held leases have used so far, by id. It is recorded with their renewal.
	Usage map[string]bloom.Usage
	// Renew renews the held leases. A long poll renews once and reads often. A poll that does not
	// renew and finds a lease expired takes nothing new: its worker may be gone and would be given
	// again what it has just lost.
	Renew bool
}

// Reaped counts the leases that one Reap expired, by what became of their tasks.
type Reaped struct {
	Requeued, Dead, Cancelled int
}

// Count adds an expired lease; after is its task's new status.
func (r *Reaped) Count(after bloom.TaskStatus) {
	switch after {
	case bloom.TaskDead:
		r.Dead++
	case bloom.TaskCancelled:
		r.Cancelled++
	default:
		r.Requeued++
	}
}

// Total returns the number of expired leases.
func (r Reaped) Total() int { return r.Requeued + r.Dead + r.Cancelled }

// StickyGrace is how long a queued task waits for the worker that last held its
// context before anyone may take it.
const StickyGrace = 2 * time.Second

// CompleteRequest is a completion whose content has already been stored: Content for text in the
// row, URL for what was uploaded to the blob store.
type CompleteRequest struct {
	TaskID        string
	ArtifactID    string
	ResultID      string
	Completion    bloom.Completion
	BodyHash      string // of the normalised completion
	Content       *string
	URL           *string
	Size          int64
	SHA256        string
	MediaType     string
	PendingUpload bool // the content is not where it should stay, see MoveArtifact
	Actor         string
	ContextID     string // the task's, needed with Completion.Transcript
	NotSaved      string // why Transcript and Workspace do not count; empty if they do
}

// Records returns the artifact and the result that a completion under a lease creates. Texts are
// clean and defaults filled. now is in Unix milliseconds.
func (r CompleteRequest) Records(l bloom.Lease, now int64) (bloom.Artifact, bloom.Result) {
	c := r.Completion
	a := bloom.Artifact{
		ID: r.ArtifactID, TaskID: r.TaskID, Type: c.ArtifactType, CreatedAt: now, Finalized: true,
		URL: r.URL, EntityRefs: []string{}, Tags: c.ArtifactTags, Content: r.Content,
		Size: r.Size, SHA256: r.SHA256, MediaType: r.MediaType, Epoch: l.Epoch,
	}
	res := bloom.Result{
		ID: r.ResultID, TaskID: r.TaskID, WorkerID: l.WorkerID, ArtifactID: a.ID, Status: c.Status, Output: a.Content,
		ErrorMessage: c.ErrorMessage, Metrics: c.Metrics, CompletedAt: now, Epoch: l.Epoch,
	}
	if c.Status == bloom.OutcomeError {
		class := cmp.Or(c.ErrorClass, bloom.ClassInternal)
		res.ErrorClass = &class
	}
	return a, res
}

// LeaseStore leases tasks to workers.
type LeaseStore interface {
	// LeaseTask leases one task to a worker, which lifecycle.PickWorker selects unless it is named.
	// ErrNoWorker when no worker (or not the named one) can take it.
	LeaseTask(ctx context.Context, r LeaseRequest) (bloom.Lease, bloom.Worker, error)
	// Claim renews a worker's leases and leases it new tasks; see ClaimRequest.
	Claim(ctx context.Context, r ClaimRequest) (bloom.ClaimResult, error)
	// Heartbeat renews one lease. With an empty leaseID it renews the task's active lease, or
	// returns ErrLeaseNotFound. used, unless it is nil, is what the attempt has used so far.
	Heartbeat(ctx context.Context, taskID, leaseID string, used *bloom.Usage) (bloom.HeartbeatResult, error)
	// Complete records the outcome of a lease in one transaction. The same lease and body hash
	// again returns the same records and Replayed true; another body is ErrOtherOutcome.
	Complete(ctx context.Context, r CompleteRequest) (bloom.Completed, error)
	// Release releases a lease; repeating it changes nothing.
	Release(ctx context.Context, taskID string, r bloom.ReleaseSpec, actor string) (bloom.Task, error)
	Leases(ctx context.Context, q bloom.LeaseQuery) (leases []bloom.Lease, next bloom.Cursor, err error)
	// Lease returns one lease of a task, or ErrLeaseLost when the task never had it.
	Lease(ctx context.Context, taskID, leaseID string) (bloom.Lease, error)

	// Time returns the store's clock in Unix milliseconds.
	Time(ctx context.Context) (int64, error)
	// Reap expires at most limit overdue leases. Call it again while it expires that many.
	Reap(ctx context.Context, limit int) (Reaped, error)
	// ExtendLeases restarts the TTL of every active lease and returns how many it changed: the
	// grace period after a start, an outage or a jump of the store's clock, so that workers can report
	// again. It also shortens leases that were granted under a wrong clock.
	ExtendLeases(ctx context.Context) (int, error)
}
