package store

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
)

var errNoSession = bloom.NotFound("Session")

var sessions = table("sessions", "id text, name text, role text, key_id text, created_at bigint, last_used_at bigint, expires_at bigint, address text, "+
	"user_agent text, turn bigint, turned_at bigint", "",
	func(v []any, id string, s *bloom.StoredSession) []any {
		return append(v, id, s.Name, string(s.Role), s.KeyID, s.CreatedAt, s.LastUsedAt, s.ExpiresAt, s.Address, s.Agent, s.Turn, s.TurnedAt)
	}, nil)

const sessionColumns = `x.id, x.name, x.role, x.key_id, x.created_at, x.last_used_at, x.expires_at, x.address, x.user_agent, x.turn, x.turned_at`

func sessionFields(s *bloom.StoredSession) []any {
	return []any{&s.ID, &s.Name, &s.Role, &s.KeyID, &s.CreatedAt, &s.LastUsedAt, &s.ExpiresAt, &s.Address, &s.Agent, &s.Turn, &s.TurnedAt}
}

func loadSessions(l *Load, v *Values[string, *bloom.StoredSession]) {
	pickRows(l, v, "x", sessionColumns, sessionFields, func(s *bloom.StoredSession) string { return s.ID })
}

// session returns a locked session that has not expired.
func (u *Unit) session(id string) (*bloom.StoredSession, error) {
	x, err := sessions.get(u, id)
	if err == nil && (x == nil || x.ExpiresAt <= u.Now) {
		err = errNoSession
	}
	return x, err
}

// CreateSession stores a session and removes those that have expired.
func (s *Store) CreateSession(ctx context.Context, is bloom.BrowserSession, life time.Duration, actor string) (bloom.StoredSession, error) {
	return do(ctx, s, func(r *Rows) { sessions.want(r, is.ID) }, func(u *Unit) (bloom.StoredSession, error) {
		if was, err := u.session(is.ID); err == nil || !isNotFound(err) {
			if err != nil {
				return bloom.StoredSession{}, err
			}
			return *was, nil // a repeated call
		}
		x := &bloom.StoredSession{BrowserSession: is, Turn: 1, TurnedAt: u.Now}
		x.CreatedAt, x.LastUsedAt, x.ExpiresAt = u.Now, u.Now, u.Now+life.Milliseconds()
		sessions.put(u, x.ID, x)
		u.c.Removal.SessionsBefore = u.Now
		u.audit(bloom.ActionLogin, bloom.EntitySession, x.ID, actor, "Signed in as "+string(x.Role), bloom.MustJSON(map[string]any{
			"role": x.Role, "key_id": x.KeyID, "user_agent": x.Agent}))
		return *x, nil
	})
}

// RenewSession moves a session to its next turn and extends its life. A session that
// is no longer at turn is returned unchanged.
func (s *Store) RenewSession(ctx context.Context, id string, turn int64, life time.Duration) (bloom.StoredSession, error) {
	return do(ctx, s, func(r *Rows) { sessions.want(r, id) }, func(u *Unit) (bloom.StoredSession, error) {
		x, err := u.session(id)
		if err != nil {
			return bloom.StoredSession{}, err
		}
		if x.Turn == turn {
			x.Turn, x.TurnedAt, x.LastUsedAt, x.ExpiresAt = turn+1, u.Now, u.Now, u.Now+life.Milliseconds()
			sessions.put(u, x.ID, x)
			u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeAccess})
		}
		return *x, nil
	})
}

// EndSession removes a session.
func (s *Store) EndSession(ctx context.Context, id, actor string) error {
	_, err := do(ctx, s, func(r *Rows) { sessions.want(r, id) }, func(u *Unit) (struct{}, error) {
		x, err := u.session(id)
		if err != nil {
			return struct{}{}, err
		}
		sessions.put(u, id, nil)
		u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeAccess})
		u.audit(bloom.ActionSessionEnded, bloom.EntitySession, id, actor, "Session of "+x.Name, bloom.MustJSON(map[string]any{"name": x.Name, "key_id": x.KeyID}))
		return struct{}{}, nil
	})
	return err
}

// Sessions lists sessions that have not expired, the newest first.
func (s *Store) Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	all, next, err := s.storedSessions(ctx, p)
	if err != nil {
		return nil, next, err
	}
	now, err := s.Time(ctx)
	live := all[:0]
	for _, x := range all {
		if x.ExpiresAt > now {
			live = append(live, x)
		}
	}
	return live, next, err
}

// Session reads one session.
func (s *Store) Session(ctx context.Context, id string) (bloom.StoredSession, error) {
	missing := bloom.NotFound("Session")
	if id != bloom.CleanText(id) {
		return bloom.StoredSession{}, missing
	}
	return single(ctx, s, sessionFields, missing, `SELECT `+sessionColumns+` FROM sessions x WHERE x.id = $1`, id)
}

// Sessions lists sessions, the newest first.
func (s *Store) storedSessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	known, next, err := list(ctx, s, &listing[bloom.StoredSession]{from: "sessions", as: "x", columns: sessionColumns, fields: sessionFields}, p)
	sessions := make([]bloom.BrowserSession, 0, len(known))
	for _, k := range known {
		sessions = append(sessions, k.BrowserSession)
	}
	return sessions, next, err
}
