package client

import (
	"context"
	"iter"

	"github.com/bloom-runtime/bloom"
)

// Contexts reads one page, the context used last first, and where the next begins.
func (c *Client) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	return list[bloom.Context](ctx, c, newQuery(q.Page).on("/contexts"))
}

// AllContexts walks every page from q's on.
func (c *Client) AllContexts(ctx context.Context, q bloom.ContextQuery) iter.Seq2[bloom.Context, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Context, bloom.Cursor, error) {
		q.Page = p
		return c.Contexts(ctx, q)
	})
}

// Context reads one context. An unknown one is a not_found error.
func (c *Client) Context(ctx context.Context, id string) (bloom.Context, error) {
	return get[bloom.Context](ctx, c, "/contexts/"+seg(id))
}
