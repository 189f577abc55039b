package membridge

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
)

// Intervals of the loops.
const (
	wakeEvery     = time.Second
	maintainEvery = 10 * time.Second
)

// Loop is a background job. RunOnce runs it once; tests call it directly.
type Loop struct {
	Name    string
	Every   time.Duration
	RunOnce func(ctx context.Context) error
}

// Loops returns the control plane's loops: one wakes the heartbeats waiting here for commands that
// another replica accepted, and those of agents that another replica drained, undrained or deleted;
// maintenance records that a control plane is alive, and fails and deletes old jobs.
func (s *Server) Loops() []Loop {
	return []Loop{
		{"wake", wakeEvery, s.wakeWaiting},
		{"maintenance", maintainEvery, s.maintain},
	}
}

// Run runs the loops until ctx ends, then returns nil. A failure is logged and counted; the loop
// tries again at its next interval.
func (s *Server) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, loop := range s.Loops() {
		group.Go(func() error { s.runLoop(ctx, loop); return nil })
	}
	return group.Wait()
}

// RunOnce runs every loop once and returns the first error.
func (s *Server) RunOnce(ctx context.Context) error {
	for _, loop := range s.Loops() {
		if err := loop.RunOnce(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) runLoop(ctx context.Context, loop Loop) {
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
			s.cfg.Log.Warn("membridge: background loop failed", slog.String("loop", loop.Name), slog.Any("error", err))
		}
	}
}

func (s *Server) wakeWaiting(ctx context.Context) error {
	if s.waiting.size() == 0 {
		return nil
	}
	agents, err := s.store.AgentsWithQueuedJobs(ctx)
	if err != nil {
		return err
	}
	for _, name := range agents {
		s.waiting.wakeAgent(name)
	}
	waiting := s.waiting.agents()
	levels, err := s.store.DrainLevels(ctx, waiting)
	if err != nil {
		return err
	}
	s.waiting.wakeChanged(waiting, levels)
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
