package auditlog

import (
	"context"
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Served reads the chain of a running server, of which it asks for one part after the other.
type Served func(ctx context.Context, after int64, limit int) (bloom.ChainPart, error)

// AuditLinks lists the chain after an entry's number.
func (s Served) AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev audit.Link, links []audit.Link, err error) {
	part, err := s(ctx, after, limit)
	if err != nil {
		return head, prev, nil, err
	}
	if prev, err = audit.LinkOf(part.Prev); err != nil {
		return head, prev, nil, fmt.Errorf("audit entry %d: %w", part.Prev.Seq, err)
	}
	for _, p := range part.Links {
		l, err := audit.LinkOf(p)
		if err != nil {
			return head, prev, nil, fmt.Errorf("audit entry %d: %w", p.Seq, err)
		}
		links = append(links, l)
	}
	return part.Head, prev, links, nil
}

// AuditExport is how far the audit was written to files, as the server tells others: the last entry
// in one and the branch of the files.
func (s Served) AuditExport(ctx context.Context) (contract.AuditExport, error) {
	part, err := s(ctx, 0, 1)
	return contract.AuditExport{Exported: part.Exported, Hash: "", Planned: 0, Branch: part.Branch}, err
}
