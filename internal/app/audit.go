package app

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// openAuditFiles opens the destination of the audit export; nil without one.
func (s *Server) openAuditFiles() (auditlog.Files, error) {
	if !s.cfg.ExportsAudit() {
		return nil, nil
	}
	switch where := s.cfg.AuditExport.AuditExport; where {
	case "bucket":
		return AuditBucket(s.cfg.Bucket)
	case config.AuditInDataDir:
		dir, err := filepath.Abs(s.cfg.DataDir)
		if err != nil {
			return nil, err
		}
		return auditFolder("--data-dir", dir)
	default:
		return auditFolder("--audit-export", where)
	}
}

// auditFolder opens the folder that a setting names.
func auditFolder(setting, dir string) (auditlog.Files, error) {
	folder, err := auditlog.OpenFolder(dir)
	if err != nil {
		return nil, ConfigError{fmt.Errorf("%s: the audit cannot be exported: %w", setting, err)}
	}
	return folder, nil
}

// auditMove builds the loop that moves audit files exported to the data directory to the current
// destination; nil if there are none.
func (s *Server) auditMove() *maintenance.Loop {
	from, err := auditlog.ReadFolder(s.cfg.DataDir)
	if err != nil || s.auditFiles == nil || s.cfg.AuditExport.AuditExport == config.AuditInDataDir {
		return nil
	}
	return maintenance.NewAuditMove(func(ctx context.Context) (int, error) { return auditlog.Move(ctx, from, s.auditFiles) }, s.log)
}

// auditLoops returns the loops that export the audit; none if it is not exported.
func (s *Server) auditLoops() []*maintenance.Loop {
	if s.auditFiles == nil {
		return nil
	}
	export := maintenance.NewAuditExport(maintenance.AuditExportConfig{
		Store: s.store, Files: s.auditFiles, Installation: s.installation.id, Logger: s.log, Every: maintenance.DefaultExportEvery, Wrote: s.metrics.AuditExported,
	})
	return []*maintenance.Loop{export, maintenance.NewAuditExportFull(s.store, export, s.log)}
}

// AuditBucket returns the bucket that servers with these settings export the audit to.
func AuditBucket(c config.Bucket) (auditlog.Files, error) {
	bucket, err := openBucket(c.ObjectStorage, c.ArtifactBucket)
	if err != nil {
		return nil, err
	}
	return auditlog.NewBucket(bucket), nil
}

// AuditChain opens a database's audit for reading, also while servers use it; the caller must call
// done.
func AuditChain(ctx context.Context, dataDir, databaseURL string) (chain audit.Reader, done func(), err error) {
	if databaseURL != "" {
		a, err := postgres.OpenAudit(ctx, databaseURL)
		if err != nil {
			return nil, nil, err
		}
		return a, a.Close, nil
	}
	path, err := database(dataDir)
	if err != nil {
		return nil, nil, err
	}
	a, err := sqlite.OpenAudit(path)
	if err != nil {
		return nil, nil, err
	}
	return a, a.Close, nil
}
