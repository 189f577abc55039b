package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

const keyColumns = `x.id, x.name, x.role, x.worker_id, x.digest, x.created_at, x.created_by, x.expires_at, x.last_used_at, x.revoked_at`

func keyFields(k *bloom.APIKey, digest *string) []any {
	return []any{&k.ID, &k.Name, &k.Role, &k.WorkerID, digest, &k.CreatedAt, &k.CreatedBy, &k.ExpiresAt, &k.LastUsedAt, &k.RevokedAt}
}

func scanKey(r pgx.Rows) (k bloom.KnownKey, err error) {
	err = r.Scan(keyFields(&k.APIKey, &k.Digest)...)
	return k, err
}

const sessionColumns = `x.id, x.name, x.role, x.key_id, x.created_at, x.last_used_at, x.expires_at, x.address, x.user_agent, x.turn, x.turned_at`

func sessionFields(s *bloom.BrowserSession, turn, turnedAt *int64) []any {
	return []any{&s.ID, &s.Name, &s.Role, &s.KeyID, &s.CreatedAt, &s.LastUsedAt, &s.ExpiresAt, &s.Address, &s.Agent, turn, turnedAt}
}

func scanSession(r pgx.Rows) (s bloom.KnownSession, err error) {
	err = r.Scan(sessionFields(&s.BrowserSession, &s.Turn, &s.TurnedAt)...)
	return s, err
}

// access locks keys and sessions.
func (l *loader) access() {
	if keys := l.want.APIKeys.List(); len(keys) > 0 {
		l.each(func(r pgx.Rows) error {
			k, err := scanKey(r)
			l.rows.APIKeys[k.ID] = &k
			return err
		}, `SELECT `+keyColumns+` FROM api_keys x WHERE x.id = ANY($1::text[]) FOR UPDATE SKIP LOCKED`, keys)
	}
	if sessions := l.want.Sessions.List(); len(sessions) > 0 {
		l.each(func(r pgx.Rows) error {
			s, err := scanSession(r)
			l.rows.Sessions[s.ID] = &s
			return err
		}, `SELECT `+sessionColumns+` FROM sessions x WHERE x.id = ANY($1::text[]) FOR UPDATE SKIP LOCKED`, sessions)
	}
}

var putKeys = puts("api_keys", "id text, name text, role text, worker_id text, digest text, created_at bigint, created_by text, expires_at bigint, "+
	"last_used_at bigint, revoked_at bigint",
	func(v []any, k *bloom.KnownKey) []any {
		return append(v, k.ID, k.Name, string(k.Role), k.WorkerID, k.Digest, k.CreatedAt, k.CreatedBy, k.ExpiresAt, k.LastUsedAt, k.RevokedAt)
	})

var putSessions = puts("sessions", "id text, name text, role text, key_id text, created_at bigint, last_used_at bigint, expires_at bigint, address text, "+
	"user_agent text, turn bigint, turned_at bigint",
	func(v []any, s *bloom.KnownSession) []any {
		return append(v, s.ID, s.Name, string(s.Role), s.KeyID, s.CreatedAt, s.LastUsedAt, s.ExpiresAt, s.Address, s.Agent, s.Turn, s.TurnedAt)
	})

func queueSessionsEnd(b *pgx.Batch, r *store.Removal) {
	if len(r.Sessions) > 0 {
		b.Queue(`DELETE FROM sessions WHERE id = ANY($1::text[])`, r.Sessions)
	}
	if len(r.SessionsOf) > 0 {
		b.Queue(`DELETE FROM sessions WHERE key_id = ANY($1::text[])`, r.SessionsOf)
	}
	if r.SessionsBefore > 0 {
		b.Queue(`DELETE FROM sessions WHERE expires_at <= $1`, r.SessionsBefore)
	}
}

// Key reads one key.
func (d *database) Key(ctx context.Context, id string) (bloom.KnownKey, error) {
	missing := bloom.NotFound("Key")
	if id != bloom.CleanText(id) {
		return bloom.KnownKey{}, missing
	}
	return read(ctx, d, func(c reader) (bloom.KnownKey, error) {
		return found(ctx, c, scanKey, missing, `SELECT `+keyColumns+` FROM api_keys x WHERE x.id = $1`, id)
	})
}

// Keys lists the newest first.
func (d *database) Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	var digest string
	l := listing[bloom.APIKey]{table: "api_keys", columns: keyColumns, fields: func(k *bloom.APIKey) []any { return keyFields(k, &digest) }}
	pg, err := read(ctx, d, func(c reader) (page[bloom.APIKey], error) { return l.page(ctx, c, p) })
	return pg.items, pg.next, err
}

// AnyKey reports whether a key was ever created.
func (d *database) AnyKey(ctx context.Context) (bool, error) {
	return read(ctx, d, func(c reader) (any bool, err error) {
		err = c.QueryRow(ctx, `SELECT EXISTS (SELECT FROM api_keys)`).Scan(&any)
		return any, err
	})
}

// Session reads one session.
func (d *database) Session(ctx context.Context, id string) (bloom.KnownSession, error) {
	missing := bloom.NotFound("Session")
	if id != bloom.CleanText(id) {
		return bloom.KnownSession{}, missing
	}
	return read(ctx, d, func(c reader) (bloom.KnownSession, error) {
		return found(ctx, c, scanSession, missing, `SELECT `+sessionColumns+` FROM sessions x WHERE x.id = $1`, id)
	})
}

// Sessions lists the newest first.
func (d *database) Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	var turn, turnedAt int64
	l := listing[bloom.BrowserSession]{table: "sessions", columns: sessionColumns, fields: func(s *bloom.BrowserSession) []any { return sessionFields(s, &turn, &turnedAt) }}
	pg, err := read(ctx, d, func(c reader) (page[bloom.BrowserSession], error) { return l.page(ctx, c, p) })
	return pg.items, pg.next, err
}
