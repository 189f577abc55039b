package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/bloom-runtime/bloom"
)

// AuditChain returns the part of the audit chain after an entry's number, oldest first, at most 1000
// links; a part without links is the end. With the canonical JSON of its entries a caller can check
// the chain without trusting the server, as `bloom audit verify` does.
func (c *Client) AuditChain(ctx context.Context, after int64, limit int) (bloom.ChainPart, error) {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(limit)}}
	return get[bloom.ChainPart](ctx, c, "/audit/chain?"+q.Encode())
}
