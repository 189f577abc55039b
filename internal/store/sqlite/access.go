package sqlite

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

const keyColumns = `x.id, x.name, x.role, x.worker_id, x.digest, x.created_at, x.created_by, x.expires_at, x.last_used_at, x.revoked_at`

func scanKey(r row) bloom.KnownKey {
	return bloom.KnownKey{Digest: r.str(4), APIKey: bloom.APIKey{
		ID: r.str(0), Name: r.str(1), Role: bloom.Role(r.str(2)), WorkerID: r.strp(3), CreatedAt: r.int(5), CreatedBy: r.str(6),
		ExpiresAt: r.intp(7), LastUsedAt: r.intp(8), RevokedAt: r.intp(9),
	}}
}

const sessionColumns = `x.id, x.name, x.role, x.key_id, x.created_at, x.last_used_at, x.expires_at, x.address, x.user_agent, x.turn, x.turned_at`

func scanSession(r row) bloom.KnownSession {
	return bloom.KnownSession{Turn: r.int(9), TurnedAt: r.int(10), BrowserSession: bloom.BrowserSession{
		ID: r.str(0), Name: r.str(1), Role: bloom.Role(r.str(2)), KeyID: r.strp(3), CreatedAt: r.int(4), LastUsedAt: r.int(5),
		ExpiresAt: r.int(6), Address: r.str(7), Agent: r.str(8),
	}}
}

func (t *tx) loadAccess(want *store.ReadSet, rows *store.Rows) error {
	if err := load(want.APIKeys, rows.APIKeys, func(id string) (*bloom.KnownKey, error) {
		return optional(t.conn, scanKey, `SELECT `+keyColumns+` FROM api_keys x WHERE x.id = ?`, id)
	}); err != nil {
		return err
	}
	return load(want.Sessions, rows.Sessions, func(id string) (*bloom.KnownSession, error) {
		return optional(t.conn, scanSession, `SELECT `+sessionColumns+` FROM sessions x WHERE x.id = ?`, id)
	})
}

func (t *tx) putAccess(c *store.Changes) error {
	for _, k := range c.APIKeys {
		if _, err := t.exec(`INSERT INTO api_keys (id, name, role, worker_id, digest, created_at, created_by, expires_at, last_used_at, revoked_at)
			VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) ON CONFLICT (id) DO UPDATE SET last_used_at = ?9, revoked_at = ?10`,
			k.ID, k.Name, string(k.Role), k.WorkerID, k.Digest, k.CreatedAt, k.CreatedBy, k.ExpiresAt, k.LastUsedAt, k.RevokedAt); err != nil {
			return err
		}
	}
	for _, x := range c.Sessions {
		if _, err := t.exec(`INSERT INTO sessions (id, name, role, key_id, created_at, last_used_at, expires_at, address, user_agent, turn, turned_at)
			VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11) ON CONFLICT (id) DO UPDATE SET last_used_at = ?6, expires_at = ?7, turn = ?10, turned_at = ?11`,
			x.ID, x.Name, string(x.Role), x.KeyID, x.CreatedAt, x.LastUsedAt, x.ExpiresAt, x.Address, x.Agent, x.Turn, x.TurnedAt); err != nil {
			return err
		}
	}
	return nil
}

// Key reads one key.
func (d *database) Key(ctx context.Context, id string) (bloom.KnownKey, error) {
	return read(ctx, d, func(c *conn) (bloom.KnownKey, error) {
		return found(c, scanKey, bloom.NotFound("Key"), `SELECT `+keyColumns+` FROM api_keys x WHERE x.id = ?`, id)
	})
}

// Keys lists the newest first.
func (d *database) Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	l := listing[bloom.APIKey]{table: "api_keys", columns: keyColumns, scan: func(r row) bloom.APIKey { return scanKey(r).APIKey }}
	pg, err := read(ctx, d, func(c *conn) (page[bloom.APIKey], error) { return l.page(c, p) })
	return pg.items, pg.next, err
}

// AnyKey reports whether a key was ever created.
func (d *database) AnyKey(ctx context.Context) (bool, error) {
	return read(ctx, d, func(c *conn) (bool, error) {
		_, any, err := c.one(`SELECT 1 FROM api_keys LIMIT 1`)
		return any, err
	})
}

// Session reads one session.
func (d *database) Session(ctx context.Context, id string) (bloom.KnownSession, error) {
	return read(ctx, d, func(c *conn) (bloom.KnownSession, error) {
		return found(c, scanSession, bloom.NotFound("Session"), `SELECT `+sessionColumns+` FROM sessions x WHERE x.id = ?`, id)
	})
}

// Sessions lists the newest first.
func (d *database) Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	l := listing[bloom.BrowserSession]{table: "sessions", columns: sessionColumns, scan: func(r row) bloom.BrowserSession { return scanSession(r).BrowserSession }}
	pg, err := read(ctx, d, func(c *conn) (page[bloom.BrowserSession], error) { return l.page(c, p) })
	return pg.items, pg.next, err
}
