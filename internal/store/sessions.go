package store

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
)

var errNoSession = bloom.NotFound("Session")

// session returns a locked session that has not expired.
func (u *Unit) session(id string) (*bloom.StoredSession, error) {
	if x, ok := u.access.sessions[id]; ok {
		if x == nil {
			return nil, errNoSession
		}
		return x, nil
	}
	was, ok := u.rows.Sessions[id]
	switch {
	case !ok:
		return nil, u.require(id, func() { u.missing.Sessions.Add(id) })
	case was == nil || was.ExpiresAt <= u.Now:
		return nil, errNoSession
	}
	x := new(bloom.StoredSession)
	*x = *was
	u.putSession(id, x)
	return x, nil
}

func (u *Unit) putSession(id string, x *bloom.StoredSession) {
	if u.access.sessions == nil {
		u.access.sessions = map[string]*bloom.StoredSession{}
	}
	u.access.sessions[id] = x
}

// saveSession adds a session to the changes.
func (u *Unit) saveSession(x *bloom.StoredSession) {
	u.dirty = true
	u.putSession(x.ID, x)
	if _, ok := u.access.saved[x.ID]; !ok {
		u.access.saved.Add(x.ID)
		u.c.Sessions = append(u.c.Sessions, x)
	}
}

// CreateSession stores a session and removes those that have expired.
func (s *Store) CreateSession(ctx context.Context, is bloom.BrowserSession, life time.Duration, actor string) (bloom.StoredSession, error) {
	return do(ctx, s, func(r *ReadSet) { r.Sessions.Add(is.ID) }, func(u *Unit) (bloom.StoredSession, error) {
		if was, err := u.session(is.ID); err == nil || !isNotFound(err) {
			if err != nil {
				return bloom.StoredSession{}, err
			}
			return *was, nil // a repeated call
		}
		x := &bloom.StoredSession{BrowserSession: is, Turn: 1, TurnedAt: u.Now}
		x.CreatedAt, x.LastUsedAt, x.ExpiresAt = u.Now, u.Now, u.Now+life.Milliseconds()
		u.saveSession(x)
		u.c.Removal.SessionsBefore = u.Now
		u.audit(bloom.ActionLogin, bloom.EntitySession, x.ID, actor, "Signed in as "+string(x.Role), bloom.MustJSON(map[string]any{
			"role": x.Role, "key_id": x.KeyID, "user_agent": x.Agent}))
		return *x, nil
	})
}

// RenewSession moves a session to its next turn and extends its life. A session that
// is no longer at turn is returned unchanged.
func (s *Store) RenewSession(ctx context.Context, id string, turn int64, life time.Duration) (bloom.StoredSession, error) {
	return do(ctx, s, func(r *ReadSet) { r.Sessions.Add(id) }, func(u *Unit) (bloom.StoredSession, error) {
		x, err := u.session(id)
		if err != nil {
			return bloom.StoredSession{}, err
		}
		if x.Turn == turn {
			x.Turn, x.TurnedAt, x.LastUsedAt, x.ExpiresAt = turn+1, u.Now, u.Now, u.Now+life.Milliseconds()
			u.saveSession(x)
			u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeAccess})
		}
		return *x, nil
	})
}

// EndSession removes a session.
func (s *Store) EndSession(ctx context.Context, id, actor string) error {
	_, err := do(ctx, s, func(r *ReadSet) { r.Sessions.Add(id) }, func(u *Unit) (struct{}, error) {
		x, err := u.session(id)
		if err != nil {
			return struct{}{}, err
		}
		u.putSession(id, nil)
		u.c.Removal.Sessions = append(u.c.Removal.Sessions, id)
		u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeAccess})
		u.audit(bloom.ActionSessionEnded, bloom.EntitySession, id, actor, "Session of "+x.Name, bloom.MustJSON(map[string]any{"name": x.Name, "key_id": x.KeyID}))
		return struct{}{}, nil
	})
	return err
}

// Sessions lists sessions that have not expired, the newest first.
func (s *Store) Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	all, next, err := s.db.Sessions(ctx, p)
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
