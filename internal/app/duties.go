package app

import (
	"context"

	"github.com/bloom-runtime/bloom/internal/upkeep"
)

// syncLock names the lock of the worker sync among a store's replicas.
const syncLock = "worker-sync"

// locker is a store that several servers share.
type locker interface {
	TryLock(ctx context.Context, name string) (release func(), ok bool, err error)
}

// duties are the background loops of a server.
func (s *Server) duties() []*upkeep.Loop {
	sync := upkeep.WorkerSyncConfig{Store: s.store, ControlPlane: s.control, Logger: s.log, Every: s.cfg.SyncInterval}
	if shared, ok := s.store.(locker); ok {
		sync.TryLock = func(ctx context.Context) (func(), bool, error) { return shared.TryLock(ctx, syncLock) }
	}
	synced := upkeep.NewWorkerSync(sync)
	s.control.onChange(synced.Again)
	return []*upkeep.Loop{
		upkeep.NewReaper(upkeep.ReaperConfig{Store: s.store, Logger: s.log, Every: s.cfg.ReapInterval}),
		upkeep.NewSilentWorkers(upkeep.SilentWorkersConfig{Store: s.store, Logger: s.log}),
		synced,
	}
}
