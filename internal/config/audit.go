package config

import (
	"errors"
	"path/filepath"
)

// AuditExport selects where the audit is exported to files.
type AuditExport struct {
	AuditExport string `name:"audit-export" var:"BLOOM_AUDIT_EXPORT" key:"audit_export" default:"auto" placeholder:"WHERE" help:"Where the audit is exported to files: bucket (the artifacts' object storage), data-dir (audit/ in the data directory), an absolute folder, or off; auto: bucket if object storage is configured, otherwise data-dir."`
}

// AuditInDataDir is the value of AuditExport for the data directory.
const AuditInDataDir = "data-dir"

// finish resolves auto.
func (a *AuditExport) finish(inObjects bool) error {
	switch {
	case a.AuditExport == "auto" && inObjects:
		a.AuditExport = "bucket"
	case a.AuditExport == "auto":
		a.AuditExport = AuditInDataDir
	case a.AuditExport == "bucket" && !inObjects:
		return errors.New("--audit-export: bucket requires object storage (--minio-endpoint or --blob-url)")
	case a.AuditExport != "off" && a.AuditExport != "bucket" && a.AuditExport != AuditInDataDir && !filepath.IsAbs(a.AuditExport):
		return errors.New("--audit-export: must be auto, bucket, data-dir, off or an absolute folder like /var/lib/bloom-audit")
	}
	return nil
}

// ExportsAudit reports whether the audit is exported.
func (a *AuditExport) ExportsAudit() bool { return a.AuditExport != "off" && a.AuditExport != "" }
