package dispatch

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// AuditChain is the part of the audit's chain after an entry's number.
func (s *Service) AuditChain(ctx context.Context, after int64, limit int) (bloom.ChainPart, error) {
	head, prev, links, err := s.store.AuditLinks(ctx, max(after, 0), bloom.Page{Limit: limit}.Size())
	if err != nil {
		return bloom.ChainPart{}, err
	}
	return bloom.PartOf(head, prev, links), nil
}
