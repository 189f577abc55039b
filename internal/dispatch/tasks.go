package dispatch

import (
	"context"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
)

// Task returns one task.
func (s *Service) Task(ctx context.Context, id string) (bloom.Task, error) {
	if !isID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return s.store.Task(ctx, id)
}

// Cancel cancels a task, or asks its worker to stop.
func (s *Service) Cancel(ctx context.Context, id, actor string) (bloom.Task, error) {
	if !isID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return s.store.Cancel(ctx, id, actor)
}

// Requeue requeues an ended task.
func (s *Service) Requeue(ctx context.Context, id, actor string) (bloom.Task, error) {
	if !isID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return s.store.Requeue(ctx, id, actor)
}

// Stats returns the numbers of tasks, leases and workers.
func (s *Service) Stats(ctx context.Context) (bloom.Stats, error) {
	st, err := s.store.Stats(ctx)
	if st.Tasks.ByStatus == nil {
		st.Tasks.ByStatus = map[bloom.TaskStatus]int64{}
	}
	return st, err
}

// isID reports whether id has the form of an ID: a UUID in its canonical form. Other
// IDs never reach a store, because a database might refuse them.
func isID(id string) bool {
	if len(id) != 36 {
		return false
	}
	_, err := uuid.Parse(id)
	return err == nil
}
