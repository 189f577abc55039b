package store

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var errNoSession = bloom.NotFound("Session")

var sessions = table("sessions", "id text, name text, role text, key_id text, created_at bigint, last_used_at bigint, expires_at bigint, address text, "+
	"user_agent text, turn bigint, turned_at bigint", "",
	func(v []any, id string, s *contract.StoredSession) []any {
		return append(v, id, s.Name, string(s.Role), s.KeyID, s.CreatedAt, s.LastUsedAt, s.ExpiresAt, s.Address, s.Agent, s.Turn, s.TurnedAt)
	}, nil)

const sessionColumns = `x.id, x.name, x.role, x.key_id, x.created_at, x.last_used_at, x.expires_at, x.address, x.user_agent, x.turn, x.turned_at`

func sessionFields(s *contract.StoredSession) []any {
	return []any{&s.ID, &s.Name, &s.Role, &s.KeyID, &s.CreatedAt, &s.LastUsedAt, &s.ExpiresAt, &s.Address, &s.Agent, &s.Turn, &s.TurnedAt}
}

func loadSessions(l *Load, v *Values[string, *contract.StoredSession]) {
	pickRows(l, v, "x", sessionColumns, sessionFields, func(s *contract.StoredSession) string { return s.ID })
}

// session returns a locked session that has not expired.
func (u *Unit) session(id string) (*contract.StoredSession, error) {
	x, err := sessions.get(u, id)
	if err == nil && (x == nil || x.ExpiresAt <= u.Now) {
		err = errNoSession
	}
	return x, err
}

// CreateSession stores a session and removes those that have expired.
func (s *Store) CreateSession(ctx context.Context, is bloom.BrowserSession, life time.Duration, actor string) (contract.StoredSession, error) {
	return do(ctx, s, func(r *Rows) { sessions.want(r, is.ID) }, func(u *Unit) (contract.StoredSession, error) {
		if was, err := u.session(is.ID); err == nil || !isNotFound(err) {
			if err != nil {
				return contract.StoredSession{}, err
			}
			return *was, nil // a repeated call
		}
		x := &contract.StoredSession{BrowserSession: is, Turn: 1, TurnedAt: u.Now}
		x.CreatedAt, x.LastUsedAt, x.ExpiresAt = u.Now, u.Now, u.Now+life.Milliseconds()
		sessions.put(u, x.ID, x)
		u.c.Removal.SessionsBefore = u.Now
		u.audit(audit.ActionLogin, audit.EntitySession, x.ID, actor, "Signed in as "+string(x.Role), storable.MustJSON(map[string]any{
			"role": x.Role, "key_id": x.KeyID, "user_agent": x.Agent}))
		return *x, nil
	})
}

// RenewSession moves a session to its next turn and extends its life. A session that
// is no longer at turn is returned unchanged.
func (s *Store) RenewSession(ctx context.Context, id string, turn int64, life time.Duration) (contract.StoredSession, error) {
	return do(ctx, s, func(r *Rows) { sessions.want(r, id) }, func(u *Unit) (contract.StoredSession, error) {
		x, err := u.session(id)
		if err != nil {
			return contract.StoredSession{}, err
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
		u.audit(audit.ActionSessionEnded, audit.EntitySession, id, actor, "Session of "+x.Name, storable.MustJSON(map[string]any{"name": x.Name, "key_id": x.KeyID}))
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
func (s *Store) Session(ctx context.Context, id string) (contract.StoredSession, error) {
	missing := bloom.NotFound("Session")
	if id != storable.Text(id) {
		return contract.StoredSession{}, missing
	}
	return single(ctx, s, sessionFields, missing, `SELECT `+sessionColumns+` FROM sessions x WHERE x.id = $1`, id)
}

// Sessions lists sessions, the newest first.
func (s *Store) storedSessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	known, next, err := list(ctx, s, &listing[contract.StoredSession]{from: "sessions", as: "x", columns: sessionColumns, fields: sessionFields}, p)
	sessions := make([]bloom.BrowserSession, 0, len(known))
	for _, k := range known {
		sessions = append(sessions, k.BrowserSession)
	}
	return sessions, next, err
}
