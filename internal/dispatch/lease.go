package dispatch

import (
	"context"
	"errors"

	"github.com/bloom-runtime/bloom"
)

// Lease gives one task to a worker now.
func (s *Service) Lease(ctx context.Context, r bloom.LeaseRequest) (bloom.Lease, bloom.Worker, error) {
	if !isID(r.TaskID) {
		return bloom.Lease{}, bloom.Worker{}, bloom.ErrTaskNotFound
	}
	r.WorkerID = bloom.CleanText(r.WorkerID)
	return s.store.LeaseTask(ctx, r)
}

// Heartbeat renews a lease; the first makes its task running.
func (s *Service) Heartbeat(ctx context.Context, taskID, leaseID string) (bloom.HeartbeatResult, error) {
	if !isID(taskID) {
		return bloom.HeartbeatResult{}, bloom.ErrTaskNotFound
	}
	if leaseID != "" && !isID(leaseID) {
		return bloom.HeartbeatResult{}, bloom.ErrLeaseLost
	}
	return s.store.Heartbeat(ctx, taskID, leaseID)
}

// Release gives a task back unfinished.
func (s *Service) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec, actor string) (bloom.Task, error) {
	if !isID(taskID) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	if !isID(r.LeaseID) {
		return bloom.Task{}, bloom.ErrLeaseLost
	}
	r.Reason = bloom.CleanText(r.Reason)
	return s.store.Release(ctx, taskID, r, actor)
}

// Leases lists leases, newest first.
func (s *Service) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	list := func(q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) { return s.store.Leases(ctx, q) }
	if knowsNoPages(q.Page) {
		return leasesUnpaged(q, list)
	}
	return list(q)
}

// staleAudited is how many completions under lost leases a minute are in the audit: anybody
// with a worker's key can make up leases.
const staleAudited = 60

// refusedStale records in the audit that somebody worked on under a lost lease, a few times a
// minute. Without an actor it is the worker that had the lease. The refusal stands whether or
// not this can be written.
func (s *Service) refusedStale(ctx context.Context, taskID, leaseID, actor string, refusal error) {
	if !errors.Is(refusal, bloom.ErrLeaseLost) || !s.stale.AllowN(s.clock.Now(), 1) {
		return
	}
	if actor == "" {
		lease, _ := s.leaseOf(ctx, taskID, leaseID) // who had it, if anybody
		actor = lease.WorkerID
	}
	err := s.store.AppendAudit(context.WithoutCancel(ctx), bloom.Audit{
		Action: bloom.ActionLeaseLost, EntityType: bloom.EntityTask, EntityID: taskID, Actor: actor,
		Detail: "A completion under a lease that is no longer current was refused",
		Data:   bloom.MustJSON(map[string]string{"lease_id": leaseID}),
	})
	if err != nil {
		s.log.WarnContext(ctx, "a refused completion could not be audited", "task_id", taskID, "error", err)
	}
}
