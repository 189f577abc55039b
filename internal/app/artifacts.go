package app

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/blob/tiered"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

// maxRowContent is what a completion can bring at most, in bytes: among servers that
// share a database its row keeps it while the object storage is away.
const maxRowContent = 32 << 20

// artifacts is where artifacts are kept, whatever that is.
type artifacts interface {
	bloom.Blobs
	Close() error
}

// openArtifacts opens the folder, and the object storage if one is configured. A
// storage that does not answer keeps nobody from starting: until it does, artifacts
// are kept as when it fails later.
func (s *Server) openArtifacts(ctx context.Context) error {
	folder, err := local.Open(ArtifactsDir(s.cfg.DataDir))
	if err != nil {
		return err
	}
	s.blobs, s.folder = folder, folder
	if !s.cfg.InObjects() {
		_, _ = s.refreshFolder(ctx) // it has logged what is wrong, and the loop asks again
		return nil
	}
	bucket, err := openBucket(s.cfg.ObjectStorage, s.cfg.ArtifactBucket)
	if err != nil {
		return Misuse{err}
	}
	var shared bloom.Blobs // stays nil where this server's folder is all that there is
	if database, ok := s.store.(*postgres.Store); ok {
		shared = database.Contents()
	}
	store, err := tiered.New(tiered.Config{Bucket: bucket, Local: folder, Shared: shared, Logger: s.log, Stall: tiered.DefaultStall, Observe: s.metrics.Stored})
	if err != nil {
		return err
	}
	s.blobs, s.objects = store, store
	_, _ = store.Refresh(ctx) // it has logged what is wrong, and the loop asks again
	return nil
}

// openMover makes what moves and verifies content; without object storage it only
// verifies.
func (s *Server) openMover() {
	c := maintenance.MoverConfig{Store: s.store, Blobs: s.blobs, Upload: nil, Placed: nil, Clock: nil, Logger: s.log, Every: maintenance.DefaultMoverEvery, Moved: s.metrics.Moved}
	if s.objects != nil {
		c.Upload, c.Placed = s.objects.Upload, s.objects.Placed
	}
	s.mover = maintenance.NewMover(c)
}

// transcripts makes what turns runs' events into artifacts.
func (s *Server) transcripts() *maintenance.Transcripts {
	c := maintenance.TranscriptsConfig{Store: s.store, Blobs: s.blobs, Placed: nil, Dir: ArtifactsDir(s.cfg.DataDir), Clock: nil, Logger: s.log,
		Every: maintenance.DefaultTranscriptsEvery, Written: s.metrics.Transcribed}
	if s.objects != nil {
		c.Placed = s.objects.Placed
	}
	return maintenance.NewTranscripts(c)
}

// refreshFolder probes the artifact folder.
func (s *Server) refreshFolder(ctx context.Context) (back bool, err error) {
	failed := s.folder.State().LastError != nil
	back, err = s.folder.Refresh(ctx)
	switch {
	case err != nil && !failed && ctx.Err() == nil:
		s.log.ErrorContext(ctx, "artifacts that are too large for the database cannot be kept", "error", err)
	case err == nil && failed:
		s.log.InfoContext(ctx, "artifacts can be kept again")
	}
	return back, err
}
