package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

// RegisterWorker creates or updates a worker, and reports whether it was created.
func (s *Service) RegisterWorker(ctx context.Context, w bloom.WorkerSpec, actor string) (worker bloom.Worker, created bool, err error) {
	input.Normalize(&w)
	if w.MustName {
		if err := s.limitWorker(ctx, &w); err != nil {
			return worker, false, err
		}
	}
	return s.store.RegisterWorker(ctx, w, actor)
}

// shortRecord limits a worker's record, in bytes, once there are a tenth of MaxWorkers:
// lists of workers are read into memory as a whole.
const shortRecord = 2 << 10

// limitWorker refuses a new worker if there are MaxWorkers, and shortens the record of
// one if there are many.
func (s *Service) limitWorker(ctx context.Context, w *bloom.WorkerSpec) error {
	_, _, err := s.store.Worker(ctx, w.Name)
	unknown := errors.Is(err, bloom.ErrWorkerNotFound)
	if err != nil && !unknown {
		return err
	}
	st, err := s.store.Stats(ctx)
	switch n := st.Workers.Total; {
	case err != nil:
		return err
	case unknown && n >= s.most:
		return bloom.Conflict("There are %d workers, which is the limit for registrations with worker keys; remove those that no longer exist", n)
	case n < s.most/10:
		return nil
	}
	for len(w.Agents) > 0 && w.Bytes() > shortRecord {
		w.Agents = w.Agents[:len(w.Agents)-1]
	}
	if w.Bytes() > shortRecord {
		return bloom.Invalid("With this many workers a worker's record must be short",
			bloom.FieldError{Field: "capabilities.labels", Message: fmt.Sprintf("must have, together with all other texts, at most %d bytes", shortRecord)})
	}
	return nil
}
