package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/bloom-runtime/bloom"
)

// CreateKey creates a key and returns its text, which is shown only once. The call is not retried
// when its answer is lost: nobody would know the key.
func (c *Client) CreateKey(ctx context.Context, spec bloom.KeySpec) (bloom.CreatedKey, error) {
	made, _, err := post[bloom.CreatedKey](ctx, c, "/keys", spec, unsafe)
	return made, err
}

// RevokeKey revokes a key; within 5 seconds no replica accepts it. Revoking it again changes
// nothing.
func (c *Client) RevokeKey(ctx context.Context, id string) (bloom.APIKey, error) {
	var out bloom.APIKey
	_, err := c.do(ctx, &call{method: http.MethodDelete, path: "/keys/" + seg(id), safety: safe}, &out)
	return out, err
}

// Keys returns one page of keys, newest first, and the cursor of the next page.
func (c *Client) Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	return list[bloom.APIKey](ctx, c, newQuery(p).on("/keys"))
}

// AllKeys iterates over all pages of Keys.
func (c *Client) AllKeys(ctx context.Context, p bloom.Page) iter.Seq2[bloom.APIKey, error] {
	return every(p, func(p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) { return c.Keys(ctx, p) })
}

// Sessions returns one page of browser sessions, newest first, and the cursor of the next page.
func (c *Client) Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	return list[bloom.BrowserSession](ctx, c, newQuery(p).on("/sessions"))
}

// EndSession ends a session; within 5 seconds no replica accepts its cookie.
func (c *Client) EndSession(ctx context.Context, id string) error {
	return c.remove(ctx, "/sessions/"+seg(id))
}

// RotateSecrets re-encrypts the secrets in the database under a new key. Sessions end, unless
// keepOld lets the earlier key decrypt what it encrypted until the next rotation.
func (c *Client) RotateSecrets(ctx context.Context, keepOld bool) (bloom.SecretRotation, error) {
	done, _, err := post[bloom.SecretRotation](ctx, c, "/secrets/rotate", map[string]bool{"keep_old": keepOld}, unsafe)
	return done, err
}
