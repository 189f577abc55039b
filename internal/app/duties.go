package app

import "github.com/bloom-runtime/bloom/internal/upkeep"

// duties are the background loops of a server.
func (s *Server) duties() []*upkeep.Loop {
	return []*upkeep.Loop{
		upkeep.NewReaper(upkeep.ReaperConfig{Store: s.store, Logger: s.log, Every: s.cfg.ReapInterval}),
		upkeep.NewSilentWorkers(upkeep.SilentWorkersConfig{Store: s.store, Logger: s.log}),
	}
}
