package app

import (
	"context"

	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/blob/tiered"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

// maxRowContent is the most content of a completion, in bytes: while object storage is unavailable,
// servers that share a database keep it in the row.
const maxRowContent = 32 << 20

// artifacts is the artifact storage of any kind.
type artifacts interface {
	blob.Blobs
	Close() error
}

// openArtifacts opens the folder, and the object storage if one is configured. An object storage
// that does not answer does not prevent the start: until it does, artifacts are kept as when it
// fails later.
func (s *Server) openArtifacts(ctx context.Context) error {
	folder, err := local.Open(ArtifactsDir(s.cfg.DataDir), s.installation.area())
	if err != nil {
		return err
	}
	s.blobs, s.folder = folder, folder
	if !s.cfg.InObjects() {
		_, _ = s.refreshFolder(ctx) // logs the failure; the loop tries again
		return nil
	}
	bucket, err := openBucket(s.cfg.ObjectStorage, s.cfg.ArtifactBucket)
	if err != nil {
		return ConfigError{err}
	}
	var shared blob.Blobs // nil if there is only this server's folder
	if database, ok := s.store.(*postgres.Store); ok {
		shared = database.Contents()
		s.shared = append(s.shared, shared)
	}
	store, err := tiered.New(tiered.Config{Bucket: bucket, Area: s.installation.area(), Local: folder, Shared: shared, Logger: s.log, Stall: tiered.DefaultStall, Observe: s.metrics.Stored})
	if err != nil {
		return err
	}
	s.blobs, s.objects, s.shared = store, store, append(s.shared, store.Remote())
	_, _ = store.Refresh(ctx) // logs the failure; the loop tries again
	return nil
}

// sharedOrphans builds the loop that sweeps what servers share: the bucket, and with PostgreSQL the
// content in the database; nil without object storage.
func (s *Server) sharedOrphans() *maintenance.Loop {
	if s.objects == nil {
		return nil
	}
	mark := &maintenance.SweepMark{Store: s.store, Bucket: s.objects.Remote(), Logger: s.log}
	return maintenance.NewOrphans(maintenance.OrphansConfig{Name: "orphans", Store: s.store, Uploads: s.shared, Since: s.installation.since, Ours: mark.Ours,
		Clock: nil, Logger: s.log, Every: maintenance.DefaultOrphansEvery})
}

// folderOrphans builds the loop that sweeps this server's folder.
func (s *Server) folderOrphans() *maintenance.Loop {
	return maintenance.NewOrphans(maintenance.OrphansConfig{Name: "orphans-folder", Store: s.store, Uploads: []maintenance.Uploads{s.folder}, Since: s.installation.since, Ours: nil,
		Clock: nil, Logger: s.log, Every: maintenance.DefaultOrphansEvery})
}

// openMover builds the loop that moves and verifies content; without object storage it only
// verifies.
func (s *Server) openMover() {
	c := maintenance.MoverConfig{Store: s.store, Blobs: s.blobs, Upload: nil, Placed: nil, Clock: nil, Logger: s.log, Every: maintenance.DefaultMoverEvery, Moved: s.metrics.Moved}
	if s.objects != nil {
		c.Upload, c.Placed = s.objects.Upload, s.objects.Placed
	}
	s.mover = maintenance.NewMover(c)
}

// runLogs builds the loop that turns runs' events into artifacts.
func (s *Server) runLogs() *maintenance.RunLogs {
	c := maintenance.RunLogsConfig{Store: s.store, Blobs: s.blobs, Placed: nil, Dir: ArtifactsDir(s.cfg.DataDir), Clock: nil, Logger: s.log,
		Every: maintenance.DefaultRunLogsEvery, Written: s.metrics.RunLogWritten}
	if s.objects != nil {
		c.Placed = s.objects.Placed
	}
	return maintenance.NewRunLogs(c)
}

// refreshFolder probes the artifact folder.
func (s *Server) refreshFolder(ctx context.Context) (back bool, err error) {
	failed := s.folder.State().LastError != nil
	back, err = s.folder.Refresh(ctx)
	switch {
	case err != nil && !failed && ctx.Err() == nil:
		s.log.ErrorContext(ctx, "cannot store artifacts that are too large for the database", "error", err)
	case err == nil && failed:
		s.log.InfoContext(ctx, "artifacts can be stored again")
	}
	return back, err
}
