package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/bloom-runtime/bloom"
)

var _ bloom.ChainReader = (*Client)(nil)

// AuditLinks lists the audit chain after an entry's number, oldest first, at most 1000 links; an
// empty list is the end. It makes the client a bloom.ChainReader: bloom.VerifyChain checks the
// whole chain without trusting the server.
func (c *Client) AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev bloom.ChainLink, links []bloom.ChainLink, err error) {
	part, err := c.auditPart(ctx, after, limit)
	if err != nil {
		return head, prev, nil, err
	}
	if prev, err = part.Prev.Link(); err != nil {
		return head, prev, nil, fmt.Errorf("audit entry %d: %w", part.Prev.Seq, err)
	}
	for _, p := range part.Links {
		l, err := p.Link()
		if err != nil {
			return head, prev, nil, fmt.Errorf("audit entry %d: %w", p.Seq, err)
		}
		links = append(links, l)
	}
	return part.Head, prev, links, nil
}

// AuditExport is how far the audit was written to files: the number of the last entry in
// one, 0 for none, and the branch of the files.
func (c *Client) AuditExport(ctx context.Context) (bloom.AuditExport, error) {
	part, err := c.auditPart(ctx, 0, 1)
	return bloom.AuditExport{Exported: part.Exported, Hash: "", Planned: 0, Branch: part.Branch}, err
}

func (c *Client) auditPart(ctx context.Context, after int64, limit int) (bloom.ChainPart, error) {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(limit)}}
	return get[bloom.ChainPart](ctx, c, "/audit/chain?"+q.Encode())
}
