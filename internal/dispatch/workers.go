package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

// RegisterWorker makes a worker known or updates it; created says which.
func (s *Service) RegisterWorker(ctx context.Context, w bloom.WorkerSpec, actor string) (worker bloom.Worker, created bool, err error) {
	input.Normalize(&w)
	if w.MustName {
		if err := s.roomFor(ctx, w.Name); err != nil {
			return worker, false, err
		}
	}
	return s.store.RegisterWorker(ctx, w, actor)
}

// roomFor refuses a worker that is not known when there are very many: every list of
// workers is read whole.
func (s *Service) roomFor(ctx context.Context, name string) error {
	_, _, err := s.store.Worker(ctx, name)
	if !errors.Is(err, bloom.ErrWorkerNotFound) {
		return err
	}
	st, err := s.store.Stats(ctx)
	if err == nil && st.Workers.Total >= s.most {
		err = bloom.Conflict("There are %d workers, which is the most that a worker's key may make known; remove those that are gone", st.Workers.Total)
	}
	return err
}

// Worker is one worker and its active leases.
func (s *Service) Worker(ctx context.Context, id string) (bloom.Worker, []bloom.Lease, error) {
	return s.store.Worker(ctx, bloom.CleanText(id))
}

// Workers lists all workers by name.
func (s *Service) Workers(ctx context.Context) ([]bloom.Worker, error) {
	return s.store.Workers(ctx)
}

// RemoveWorker forgets a worker; its active leases go back to the queue.
func (s *Service) RemoveWorker(ctx context.Context, id, actor string) error {
	return s.store.RemoveWorker(ctx, bloom.CleanText(id), actor)
}

// DrainWorker drains a worker at the runtime, or undrains it there.
func (s *Service) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return s.store.DrainWorker(ctx, bloom.CleanText(id), drain, actor)
}

// ReportLogs keeps the last log lines of a worker.
func (s *Service) ReportLogs(ctx context.Context, id string, r bloom.LogReport) error {
	return s.store.ReportLogs(ctx, bloom.CleanText(id), r)
}

// WorkerLogs are the last lines that a worker reported. They tell one process from
// another, and not what a process proves with that it is the worker.
func (s *Service) WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error) {
	logs, err := s.store.WorkerLogs(ctx, bloom.CleanText(id))
	for i, l := range logs.Lines {
		if l.InstanceID != "" {
			sum := sha256.Sum256([]byte(l.InstanceID))
			logs.Lines[i].InstanceID = hex.EncodeToString(sum[:6])
		}
	}
	return logs, err
}
