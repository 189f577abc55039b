package dispatch

import (
	"cmp"
	"context"
	"errors"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// Release returns an unfinished task to the queue.
func (s *Service) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec, actor string) (bloom.Task, error) {
	if !storable.IsID(r.LeaseID) {
		return bloom.Task{}, bloom.ErrLeaseLost
	}
	if audit.CallerOf(ctx).Role == bloom.RoleWorker {
		if err := s.take(ctx, releaseQuota, taskID, 1, taskID, r.LeaseID); err != nil {
			return bloom.Task{}, err
		}
	}
	r.Reason = storable.Text(r.Reason)
	return s.store.Release(ctx, taskID, r, actor)
}

// refusedStale records in the audit that a request under a lost lease was refused, as often as
// staleAudited allows. Without an actor it names the worker that had the lease. If recording
// fails, the refusal still holds.
func (s *Service) refusedStale(ctx context.Context, taskID, leaseID, actor string, refusal error) {
	if !errors.Is(refusal, bloom.ErrLeaseLost) {
		return
	}
	lease, _ := s.leaseOf(ctx, taskID, leaseID) // who had it, if anybody
	if s.staleOne.Allow(audit.CallerOf(ctx).KeyID+" "+lease.WorkerID).Wait > 0 || s.staleAll.Allow("").Wait > 0 {
		return
	}
	actor = cmp.Or(actor, lease.WorkerID)
	err := s.store.AppendAudit(context.WithoutCancel(ctx), bloom.Audit{
		Action: audit.ActionLeaseLost, EntityType: audit.EntityTask, EntityID: taskID, Actor: actor,
		Detail: "A completion under a lease that is no longer current was refused",
		Data:   storable.MustJSON(map[string]string{"lease_id": leaseID}),
	})
	if err != nil {
		s.log.WarnContext(ctx, "auditing a refused completion failed", "task_id", taskID, "error", err)
	}
}

// CheckCompletable refuses, before a long completion is read, what Complete would
// refuse in any case: an unknown task, or a lease that the task never had. Without a
// leaseID it only checks the task.
func (s *Service) CheckCompletable(ctx context.Context, taskID, leaseID, actor string) error {
	_, err := s.leaseOf(ctx, taskID, leaseID)
	s.refusedStale(ctx, taskID, leaseID, actor, err)
	return err
}

// CheckActive returns ErrLeaseLost unless the lease is active.
func (s *Service) CheckActive(ctx context.Context, taskID, leaseID string) error {
	lease, err := s.leaseOf(ctx, taskID, leaseID)
	if err == nil && lease.Status != bloom.LeaseActive {
		return bloom.ErrLeaseLost
	}
	return err
}

// Held returns the task of an active lease.
func (s *Service) Held(ctx context.Context, taskID, leaseID string) (bloom.Task, error) {
	if leaseID == "" {
		return bloom.Task{}, bloom.ErrLeaseLost
	}
	if err := s.CheckActive(ctx, taskID, leaseID); err != nil {
		return bloom.Task{}, err
	}
	return s.store.Task(ctx, taskID)
}

// Holder returns the worker of a task's lease.
func (s *Service) Holder(ctx context.Context, taskID, leaseID string) (string, error) {
	lease, err := s.leaseOf(ctx, taskID, leaseID)
	return lease.WorkerID, err
}

// leaseOf returns a lease of a task: ErrTaskNotFound, ErrLeaseLost, or the zero Lease
// if leaseID is empty.
func (s *Service) leaseOf(ctx context.Context, taskID, leaseID string) (bloom.Lease, error) {
	if leaseID == "" {
		_, err := s.store.Task(ctx, taskID)
		return bloom.Lease{}, err
	}
	lease, err := bloom.Lease{}, error(bloom.ErrLeaseLost)
	if storable.IsID(leaseID) {
		lease, err = s.store.Lease(ctx, taskID, leaseID)
	}
	if errors.Is(err, bloom.ErrLeaseLost) {
		if _, missing := s.store.Task(ctx, taskID); missing != nil {
			return lease, missing
		}
	}
	return lease, err
}
