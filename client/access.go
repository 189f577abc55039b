package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/bloom-runtime/bloom"
)

// CreateKey makes a key. The answer is the only place where its text is ever shown.
// It is not repeated when its answer is lost: the key would be nobody's.
func (c *Client) CreateKey(ctx context.Context, spec bloom.KeySpec) (bloom.CreatedKey, error) {
	made, _, err := post[bloom.CreatedKey](ctx, c, "/keys", spec, unsafe)
	return made, err
}

// RevokeKey revokes a key; within 5 seconds no replica takes it any more. Revoking
// again changes nothing.
func (c *Client) RevokeKey(ctx context.Context, id string) (bloom.APIKey, error) {
	var out bloom.APIKey
	_, err := c.do(ctx, &call{method: http.MethodDelete, path: "/keys/" + seg(id), safety: safe}, &out)
	return out, err
}

// Keys reads one page, newest first, and where the next begins.
func (c *Client) Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	return list[bloom.APIKey](ctx, c, newQuery(p).on("/keys"))
}

// AllKeys walks every page.
func (c *Client) AllKeys(ctx context.Context, p bloom.Page) iter.Seq2[bloom.APIKey, error] {
	return every(p, func(p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) { return c.Keys(ctx, p) })
}

// Sessions reads one page of the sign-ins of browsers, newest first, and where the
// next begins.
func (c *Client) Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	return list[bloom.BrowserSession](ctx, c, newQuery(p).on("/sessions"))
}

// EndSession ends a session; within 5 seconds no replica takes its cookie any more.
func (c *Client) EndSession(ctx context.Context, id string) error {
	var out struct{}
	_, err := c.do(ctx, &call{method: http.MethodDelete, path: "/sessions/" + seg(id), safety: safe}, &out)
	return err
}

// RotateSecrets encrypts the secrets in the database under a new key. Sessions end,
// unless keepOld lets the earlier key open what it sealed until the next rotation.
func (c *Client) RotateSecrets(ctx context.Context, keepOld bool) (bloom.SecretRotation, error) {
	done, _, err := post[bloom.SecretRotation](ctx, c, "/secrets/rotate", map[string]bool{"keep_old": keepOld}, unsafe)
	return done, err
}
