package app

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/telemetry"
)

// backgroundLoops returns a server's background loops. Among servers that share a database, one
// runs them all; when it dies, another takes over.
func (s *Server) backgroundLoops() []*maintenance.Loop {
	kept, atEnd := s.cfg.Transcribe()
	runLogs := s.runLogs()
	var before *maintenance.RunLogs
	if kept {
		before = runLogs
	}
	retention := maintenance.NewRetention(maintenance.RetentionConfig{
		Store: s.store, Contents: s.blobs, Logger: s.log, Keep: s.cfg.Keep(), RunLogs: before, ExportedOnly: s.auditFiles != nil, Removed: s.metrics.Removed, Deleted: s.metrics.ContentDeleted,
	})
	shared, isShared := s.store.(*postgres.Store)
	loops := []*maintenance.Loop{
		maintenance.NewReaper(maintenance.ReaperConfig{Store: s.metrics.Observe(s.store, nil), Logger: s.log, Every: s.cfg.ReapInterval}),
		maintenance.NewSilentWorkers(maintenance.SilentWorkersConfig{Store: s.store, Logger: s.log}),
		retention,
		maintenance.NewSearch(maintenance.SearchConfig{Store: s.store, Read: s.service.Content.Read, Logger: s.log, Every: maintenance.DefaultSearchEvery}),
		maintenance.NewSeries(maintenance.SeriesConfig{Store: s.store, Logger: s.log, Every: maintenance.DefaultSeriesEvery}),
	}
	if atEnd {
		loops = append(loops, runLogs.Loop())
	}
	loops = append(loops, s.auditLoops()...)
	if orphans := s.sharedOrphans(); orphans != nil {
		loops = append(loops, orphans)
	}
	if s.control != nil {
		loops = append(loops, maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{
			Store: s.store, ControlPlane: s.control, Logger: s.log, Every: s.cfg.SyncInterval,
		}))
		s.control.onChange(loops[len(loops)-1].Restart)
	}
	if isShared {
		led := loops
		s.leader = &leader{store: shared, pause: askAgain, inherited: func() {
			for _, l := range led {
				l.RunSoon()
			}
		}}
		for _, l := range loops {
			l.OnlyLeader(s.leader.mine)
		}
	}
	if isShared && s.control != nil {
		synced := loops[len(loops)-1]
		watch := maintenance.NewWatch(maintenance.WatchConfig{Check: s.control.Check, Idle: s.leader.held, Logger: s.log, Every: s.cfg.SyncInterval})
		s.control.onChange(func() { synced.Restart(); watch.Restart() })
		loops = append(loops, watch)
	}
	// Not limited to the leader: each server has its own folder.
	if move := s.auditMove(); move != nil {
		loops = append(loops, move)
	}
	loops = append(loops, s.folderOrphans())
	if s.objects == nil {
		loops = append(loops, maintenance.NewStorageWatch(maintenance.StorageWatchConfig{Refresh: s.refreshFolder, Unavailable: s.folder.Unavailable, Back: nil, Logger: s.log, Every: maintenance.DefaultStorageEvery}))
	} else {
		// Not limited to the leader: only this server can move what it stored in its folder.
		mover := s.mover.Loop()
		loops = append(loops, mover, maintenance.NewStorageWatch(maintenance.StorageWatchConfig{Refresh: s.objects.Refresh, Unavailable: s.objects.Unavailable, Back: mover.RunSoon, Logger: s.log, Every: maintenance.DefaultStorageEvery}))
	}
	loops = append(loops, maintenance.NewKeyUse(maintenance.KeyUseConfig{Flush: s.auth.Flush, Logger: s.log, Every: 0}))
	for _, l := range loops {
		l.Observe(s.metrics.Loop(l.Name()))
	}
	return loops
}

// leaderLock is the name of the lock of the server that runs the background loops.
const leaderLock = "upkeep"

// leader is this server's leadership, kept from one run to the next.
type leader struct {
	store     *postgres.Store
	inherited func() // called when this server takes over from another
	pause     time.Duration
	mu        sync.Mutex
	lock      *postgres.Lock
	taken     bool      // another server was the leader at the last attempt
	askAt     time.Time // with taken: when to try again, at the earliest
}

// askAgain is how long, at most, a server that is not the leader waits before it tries
// again: each attempt opens a connection, and each loop asks at every run.
const askAgain = 5 * time.Second

// leaderPatience is how long the database may take to answer about the leadership.
const leaderPatience = 10 * time.Second

// mine reports whether this server is the leader, after trying to become it. ctx may end: a query
// that is cancelled would close the connection that all loops' leadership belongs to.
func (s *leader) mine(ctx context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaderPatience)
	defer cancel()
	if s.lock != nil {
		if s.lock.Held(ctx) == nil {
			return true, nil
		}
		s.release()
	}
	if s.taken && time.Now().Before(s.askAt) {
		return false, nil
	}
	lock, ok, err := s.store.TryLock(ctx, leaderLock)
	if ok {
		if s.lock = lock; s.taken {
			s.inherited()
		}
	}
	if err == nil {
		s.taken = !ok
		s.askAt = time.Now().Add(s.pause/2 + rand.N(s.pause/2+1))
	}
	return ok, err
}

// held reports whether this server is still the leader.
func (s *leader) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock != nil
}

// release resigns, for another server to take over at its next run.
func (s *leader) release() {
	if s.lock != nil {
		s.lock.Release()
		s.lock = nil
	}
}

// close releases the leadership after the loops have ended. A nil leader is allowed.
func (s *leader) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// bridgeState returns the function that reads the control plane's state for metrics; nil without
// one.
func (s *Server) bridgeState() func() telemetry.Membridge {
	if s.control == nil {
		return nil
	}
	return func() telemetry.Membridge {
		now := s.control.State()
		return telemetry.Membridge{Connected: now.Connected, ConsecutiveFailures: now.ConsecutiveFailures, LastSuccess: now.LastSuccess}
	}
}
