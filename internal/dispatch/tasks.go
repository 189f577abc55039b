package dispatch

import (
	"context"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
)

// Task is one task.
func (s *Service) Task(ctx context.Context, id string) (bloom.Task, error) {
	if !isID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return s.store.Task(ctx, id)
}

// Cancel calls a task off, or asks its worker to.
func (s *Service) Cancel(ctx context.Context, id, actor string) (bloom.Task, error) {
	if !isID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return s.store.Cancel(ctx, id, actor)
}

// Requeue puts an ended task back.
func (s *Service) Requeue(ctx context.Context, id, actor string) (bloom.Task, error) {
	if !isID(id) {
		return bloom.Task{}, bloom.ErrTaskNotFound
	}
	return s.store.Requeue(ctx, id, actor)
}

// Stats counts what there is.
func (s *Service) Stats(ctx context.Context) (bloom.Stats, error) {
	st, err := s.store.Stats(ctx)
	if st.Tasks.ByStatus == nil {
		st.Tasks.ByStatus = map[bloom.TaskStatus]int64{}
	}
	return st, err
}

// isID reports whether id can be one of ours at all: a UUID as we write it. What
// is not never reaches a store, where a dialect might refuse its form.
func isID(id string) bool {
	if len(id) != 36 {
		return false
	}
	_, err := uuid.Parse(id)
	return err == nil
}
