package dispatch

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// AuditChain is the part of the audit's chain after an entry's number.
func (s *Service) AuditChain(ctx context.Context, after int64, limit int) (bloom.ChainPart, error) {
	lag, err := s.store.AuditLag(ctx)
	if err != nil {
		return bloom.ChainPart{}, err
	}
	head, prev, links, err := s.store.AuditLinks(ctx, max(after, 0), bloom.Page{Limit: limit}.Size())
	if err != nil {
		return bloom.ChainPart{}, err
	}
	part := bloom.PartOf(head, prev, links)
	part.Exported, part.Branch = lag.LastExported, lag.Branch
	return part, nil
}
