package app

import (
	"context"
	"sync"

	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/telemetry"
	"github.com/bloom-runtime/bloom/internal/upkeep"
)

// duties are the background loops of a server. Among servers that share a
// database one does them all; when it dies another takes over.
func (s *Server) duties() []*upkeep.Loop {
	retention := upkeep.NewRetention(upkeep.RetentionConfig{
		Store: s.store, Contents: s.blobs, Logger: s.log, Keep: s.cfg.Keep(), Removed: s.metrics.Removed, Deleted: s.metrics.ContentDeleted,
	})
	shared, isShared := s.store.(*postgres.Store)
	loops := []*upkeep.Loop{
		upkeep.NewReaper(upkeep.ReaperConfig{Store: s.metrics.Observe(s.store, nil), Logger: s.log, Every: s.cfg.ReapInterval}),
		upkeep.NewSilentWorkers(upkeep.SilentWorkersConfig{Store: s.store, Logger: s.log}),
		retention,
		upkeep.NewFillContexts(upkeep.FillContextsConfig{Store: s.store, Logger: s.log, Every: upkeep.DefaultFillEvery}),
		upkeep.NewSearch(upkeep.SearchConfig{Store: s.store, Read: s.service.ReadContent, Logger: s.log, Every: upkeep.DefaultSearchEvery}),
		upkeep.NewSeries(upkeep.SeriesConfig{Store: s.store, Logger: s.log, Every: upkeep.DefaultSeriesEvery}),
	}
	if s.control != nil {
		loops = append(loops, upkeep.NewWorkerSync(upkeep.WorkerSyncConfig{
			Store: s.store, ControlPlane: s.control, Logger: s.log, Every: s.cfg.SyncInterval,
		}))
		s.control.onChange(loops[len(loops)-1].Again)
	}
	if isShared {
		// The others come round soon; what retention left half done need not wait.
		s.sole = &sole{store: shared, inherited: retention.Soon}
		for _, l := range loops {
			l.Alone(s.sole.mine)
		}
	}
	if isShared && s.control != nil {
		synced := loops[len(loops)-1]
		watch := upkeep.NewWatch(upkeep.WatchConfig{Check: s.control.Check, Idle: s.sole.held, Logger: s.log, Every: s.cfg.SyncInterval})
		s.control.onChange(func() { synced.Again(); watch.Again() })
		loops = append(loops, watch)
	}
	// Not alone: each server looks through its own folder.
	loops = append(loops, upkeep.NewOrphans(upkeep.OrphansConfig{Store: s.store, Blobs: s.blobs, Logger: s.log, Every: upkeep.DefaultOrphansEvery}))
	if s.objects != nil {
		// Not alone either: what a server kept in its folder only it can move.
		mover := s.mover.Loop()
		loops = append(loops, mover, upkeep.NewStorageWatch(upkeep.StorageWatchConfig{Refresh: s.objects.Refresh, Away: s.objects.Away, Back: mover.Soon, Logger: s.log, Every: upkeep.DefaultStorageEvery}))
	}
	loops = append(loops, upkeep.NewKeyUse(upkeep.KeyUseConfig{Flush: s.auth.Flush, Logger: s.log, Every: 0}))
	for _, l := range loops {
		l.Watch(s.metrics.Loop(l.Name()))
	}
	return loops
}

// soleLock names the right to run the loops of all servers of a database.
const soleLock = "upkeep"

// sole is this server's hold on that right, kept from one run to the next.
type sole struct {
	store     *postgres.Store
	inherited func() // hears that the right came over from another server
	mu        sync.Mutex
	lock      *postgres.Lock
	taken     bool // another server had the right when this one asked last
}

// mine reports whether this server has the right, taking it when nobody has.
func (s *sole) mine(ctx context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		if s.lock.Held(ctx) == nil {
			return true, nil
		}
		s.release()
	}
	lock, ok, err := s.store.TryLock(ctx, soleLock)
	if ok {
		if s.lock = lock; s.taken {
			s.inherited()
		}
	}
	if err == nil {
		s.taken = !ok
	}
	return ok, err
}

// held reports whether this server has had the right so far.
func (s *sole) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock != nil
}

// release gives the right up, for another server to take at its next run.
func (s *sole) release() {
	if s.lock != nil {
		s.lock.Release()
		s.lock = nil
	}
}

// close is release for when the loops have ended. A nil sole is fine.
func (s *sole) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// bridgeState is where metrics read the control plane's state; nil without one.
func (s *Server) bridgeState() func() telemetry.Membridge {
	if s.control == nil {
		return nil
	}
	return func() telemetry.Membridge {
		now := s.control.State()
		return telemetry.Membridge{Connected: now.Connected, ConsecutiveFailures: now.ConsecutiveFailures, LastSuccess: now.LastSuccess}
	}
}
