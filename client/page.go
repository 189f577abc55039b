package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// list returns one page and the cursor of the next; the zero Cursor after the last page.
func list[T any](ctx context.Context, c *Client, path string) ([]T, bloom.Cursor, error) {
	var items []T
	meta, err := c.do(ctx, &call{method: http.MethodGet, path: path, safety: safe}, &items)
	if err != nil {
		return nil, bloom.Cursor{}, err
	}
	next, err := nextCursor(meta.header)
	return items, next, err
}

// every iterates over all pages. A page that cannot be read ends the iteration with its error.
func every[T any](page bloom.Page, read func(bloom.Page) ([]T, bloom.Cursor, error)) iter.Seq2[T, error] {
	if page.Limit == 0 {
		page.Limit = bloom.DefaultPageSize // without a limit the server does not page
	}
	return func(yield func(T, error) bool) {
		for {
			items, next, err := read(page)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == (bloom.Cursor{}) || next == page.Cursor {
				return
			}
			page.Cursor = next
		}
	}
}

// nextCursor parses the cursor in Link: <…?cursor=…>; rel="next" (RFC 8288).
func nextCursor(h http.Header) (bloom.Cursor, error) {
	for _, link := range strings.Split(strings.Join(h.Values("Link"), ","), ",") {
		target, params, _ := strings.Cut(link, ";")
		if !strings.Contains(strings.ReplaceAll(params, `"`, ""), "rel=next") {
			continue
		}
		u, err := url.Parse(strings.Trim(strings.TrimSpace(target), "<>"))
		if err != nil {
			continue
		}
		return bloom.ParseCursor(u.Query().Get("cursor"))
	}
	return bloom.Cursor{}, nil
}
