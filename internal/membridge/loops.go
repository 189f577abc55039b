package membridge

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
)

// How often the loops go round.
const (
	courierEvery  = time.Second
	maintainEvery = 10 * time.Second
)

// Loop is a background job. RunOnce does one round; tests call it by hand.
type Loop struct {
	Name    string
	Every   time.Duration
	RunOnce func(ctx context.Context) error
}

// Loops are the control plane's loops: the courier wakes the heartbeats waiting
// here for orders that another replica took, and those of agents that another replica
// drained, undrained or forgot; maintenance marks that a control plane is alive, and ends
// and forgets old jobs.
func (s *Server) Loops() []Loop {
	return []Loop{
		{"courier", courierEvery, s.courier},
		{"maintenance", maintainEvery, s.maintain},
	}
}

// Run goes round the loops until ctx ends, and returns nil then. A failed round
// is logged and counted; the next one tries again.
func (s *Server) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, loop := range s.Loops() {
		group.Go(func() error { s.goRound(ctx, loop); return nil })
	}
	return group.Wait()
}

// RunOnce does one round of every loop, and returns the first failure.
func (s *Server) RunOnce(ctx context.Context) error {
	for _, loop := range s.Loops() {
		if err := loop.RunOnce(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) goRound(ctx context.Context, loop Loop) {
	ticker := time.NewTicker(loop.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := loop.RunOnce(ctx); err != nil && ctx.Err() == nil {
			s.metrics.loopErrors.WithLabelValues(loop.Name).Inc()
			s.cfg.Log.Warn("membridge: a background round failed", slog.String("loop", loop.Name), slog.Any("error", err))
		}
	}
}

func (s *Server) courier(ctx context.Context) error {
	if s.waiting.size() == 0 {
		return nil
	}
	agents, err := s.store.AgentsWithOrders(ctx)
	if err != nil {
		return err
	}
	for _, name := range agents {
		s.waiting.ring(name)
	}
	waiting := s.waiting.agents()
	levels, err := s.store.DrainLevels(ctx, waiting)
	if err != nil {
		return err
	}
	s.waiting.ringChanged(waiting, levels)
	return nil
}

func (s *Server) maintain(ctx context.Context) error {
	if _, err := s.store.MarkAlive(ctx); err != nil {
		return err
	}
	detail := "The agent did not report within " + s.cfg.JobTimeout.String()
	if _, err := s.store.ExpireJobs(ctx, s.store.Now().Add(-s.cfg.JobTimeout), detail); err != nil {
		return err
	}
	_, err := s.store.TrimJobs(ctx, DefaultKeptJobs)
	return err
}
