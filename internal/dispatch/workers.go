package dispatch

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

// RegisterWorker makes a worker known or updates it; created says which.
func (s *Service) RegisterWorker(ctx context.Context, w bloom.WorkerSpec, actor string) (worker bloom.Worker, created bool, err error) {
	input.Normalize(&w)
	return s.store.RegisterWorker(ctx, w, actor)
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

// WorkerLogs are the last lines that a worker reported.
func (s *Service) WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error) {
	return s.store.WorkerLogs(ctx, bloom.CleanText(id))
}
