package dispatch

import (
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Dispatch makes sure that a worker runs a task, for clients that push tasks to workers: it leases
// the task to the named worker, or without a name only checks that a worker will claim it. If no
// worker can, it returns an error with the reason.
func (s *Service) Dispatch(ctx context.Context, r contract.LeaseRequest) (bloom.Task, error) {
	r.WorkerID = storable.Text(r.WorkerID)
	t, err := s.store.Task(ctx, r.TaskID)
	switch {
	case err != nil:
		return t, err
	case t.Status.Terminal():
		return t, bloom.Conflict("Task status is '%s' and cannot be dispatched any more", t.Status)
	case t.WorkerID != nil && r.WorkerID != "" && r.WorkerID != *t.WorkerID:
		return t, bloom.Conflict("The task is held by worker %s, not by %s", *t.WorkerID, r.WorkerID)
	case t.Status == bloom.TaskRunning:
		return t, nil
	case t.WorkerID != nil:
		return t, s.claiming(ctx, *t.WorkerID)
	case r.WorkerID == "":
		return t, s.claimable(ctx, t)
	}
	if err := s.claiming(ctx, r.WorkerID); err != nil {
		return t, err
	}
	lease, _, err := s.store.LeaseTask(ctx, r)
	t.WorkerID, t.LeaseID = &lease.WorkerID, &lease.ID
	return t, err
}

// claiming returns an error unless the worker claims tasks.
func (s *Service) claiming(ctx context.Context, id string) error {
	workers, err := s.store.Workers(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(workers, func(w bloom.Worker) bool { return w.ID == id })
	switch {
	case i < 0:
		return bloom.ErrWorkerNotFound
	case !workers[i].Claims():
		return cannotRun("Worker " + id + " does not claim tasks: run bloom worker on it; an agent that only membridge knows runs none")
	}
	return nil
}

// claimable returns an error unless a worker that claims tasks will take the task by itself, perhaps
// only after others.
func (s *Service) claimable(ctx context.Context, t bloom.Task) error {
	workers, err := s.store.Workers(ctx)
	if err != nil {
		return err
	}
	claim := slices.DeleteFunc(slices.Clone(workers), func(w bloom.Worker) bool { return !w.Claims() })
	if len(claim) == 0 && slices.ContainsFunc(workers, func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline }) {
		return cannotRun("No online worker claims tasks: run bloom worker on each node; agents that only membridge knows run none")
	}
	if len(claim) == 0 {
		claim = workers
	}
	if w, stuck := problems.NoWorker(t.Labels, claim); stuck && w.Reason != problems.WaitFull {
		return cannotRun(w.Sentence)
	}
	return nil
}

func cannotRun(why string) error {
	return &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeNoWorker, Message: why}
}
