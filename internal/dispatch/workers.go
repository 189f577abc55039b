package dispatch

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// RegisterWorker makes a worker known or updates it; created tells which. An order
// to drain that it was given elsewhere becomes the order here: there is one, whoever
// gave it, and an order with a number is carried out once. What lifts it, see
// bloom.WorkerSpec.ToldOrder.
func (s *Service) RegisterWorker(ctx context.Context, w bloom.WorkerSpec, actor string) (worker bloom.Worker, created bool, err error) {
	w.Name = bloom.CleanText(w.Name)
	w.URL = bloom.CleanText(w.URL)
	w.Capabilities.Labels = cleanAll(w.Capabilities.Labels)
	w.IPAddrs = cleanAll(w.IPAddrs)
	w.AgentVersion = bloom.CleanText(w.AgentVersion)
	w.OSInfo = bloom.CleanText(w.OSInfo)
	w.InstallMethod = bloom.CleanText(w.InstallMethod)
	w.InstanceID = bloom.CleanText(w.InstanceID)
	worker, created, err = s.store.RegisterWorker(ctx, w, actor)
	order, told := w.ToldOrder()
	switch {
	case err != nil || !told:
	case order.Number > 0:
		worker, err = s.store.FollowDrain(ctx, worker.ID, order, actor)
	case !worker.Draining:
		worker, err = s.store.DrainWorker(ctx, worker.ID, true, actor)
	}
	return worker, created, err
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

// DrainWorker orders a worker to take no more work, or lifts the order.
func (s *Service) DrainWorker(ctx context.Context, id string, drain bool, actor string) (bloom.Worker, error) {
	return s.store.DrainWorker(ctx, bloom.CleanText(id), drain, actor)
}
