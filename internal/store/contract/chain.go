package contract

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
)

// AuditExport is the progress of the export of the audit to files.
type AuditExport struct {
	Exported int64  `json:"exported" doc:"Seq of the last entry in a file"`
	Hash     string `json:"hash"` // of that entry; empty where it is not known
	// Planned is the last entry of the file that is being written, 0 when none is. After a crash
	// the export writes the same file again.
	Planned int64 `json:"-"`
	// Branch counts how often the database was found to be older than the files because a backup
	// was restored.
	Branch int `json:"-"`
}

// AuditLag is how far chaining and export are behind.
type AuditLag struct {
	Unchained    time.Duration // age of the oldest entry that is not chained; 0: none
	Unexported   time.Duration // age of the oldest entry that is not exported; 0: none
	ToExport     int64         // a lower bound of the chained entries that are not exported: numbers have gaps
	LastExported int64         // Seq
	Branch       int           // of the files, see AuditExport
}

// AuditChainStore links the audit into one hash chain, in the order of Seq, across all processes
// that share the database, and records the progress of its export.
//
// The store itself chains entries: in the commit that creates them when one process owns the
// database, otherwise right after it. It chains an entry only when no entry with a lower Seq can
// appear any more.
type AuditChainStore interface {
	// Seal chains a bounded number of unchained entries and returns how many. It returns 0 also
	// when another process is doing it. The store calls it on its own.
	Seal(ctx context.Context) (int, error)
	// AuditHead returns the last entry of the chain.
	AuditHead(ctx context.Context) (bloom.ChainHead, error)
	// AuditLinks lists the chain after a Seq, oldest first, including entries that are not chained
	// yet; an empty list is the end. The head was read before the links. prev is the position
	// before the first link, with Seq 0 and NoHash at the beginning.
	AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev audit.Link, links []audit.Link, err error)
	// AuditExport returns the progress of the export.
	AuditExport(ctx context.Context) (AuditExport, error)
	// SetAuditExport replaces the progress was by is, and fails with a conflict when it is no
	// longer was. A new branch gets an audit entry.
	SetAuditExport(ctx context.Context, was, is AuditExport) error
	// AuditLag returns how far chaining and export are behind.
	AuditLag(ctx context.Context) (AuditLag, error)
}
