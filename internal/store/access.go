package store

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/bloom-runtime/bloom"
)

// access is the keys and sessions that a unit has read or changed.
type access struct {
	keys     map[string]*bloom.StoredKey
	sessions map[string]*bloom.StoredSession // nil: removed
	saved    Set[string]                     // ids in Changes
}

var (
	errNoKey     = bloom.NotFound("Key")
	errNoSession = bloom.NotFound("Session")
)

// apiKey is a key under its lock.
func (u *Unit) apiKey(id string) (*bloom.StoredKey, error) {
	if k, ok := u.access.keys[id]; ok {
		return k, nil
	}
	was, ok := u.rows.APIKeys[id]
	switch {
	case !ok:
		return nil, u.lacks(id, func() { u.need.APIKeys.Add(id) })
	case was == nil:
		return nil, errNoKey
	}
	k := new(bloom.StoredKey)
	*k = *was
	u.putKey(k)
	return k, nil
}

func (u *Unit) putKey(k *bloom.StoredKey) {
	if u.access.keys == nil {
		u.access.keys = map[string]*bloom.StoredKey{}
	}
	u.access.keys[k.ID] = k
}

// saveKey leaves a key to be written.
func (u *Unit) saveKey(k *bloom.StoredKey) {
	u.dirt = true
	u.putKey(k)
	if _, ok := u.access.saved[k.ID]; !ok {
		u.access.saved.Add(k.ID)
		u.c.APIKeys = append(u.c.APIKeys, k)
	}
}

func (u *Unit) shown(k *bloom.StoredKey) bloom.APIKey {
	is := k.APIKey
	is.Status = is.StatusAt(u.Now)
	return is
}

// CreateKey stores a key.
func (s *Store) CreateKey(ctx context.Context, k bloom.StoredKey, actor string) (bloom.APIKey, error) {
	return do(ctx, s, func(r *ReadSet) { r.APIKeys.Add(k.ID) }, func(u *Unit) (bloom.APIKey, error) {
		was, err := u.apiKey(k.ID)
		switch {
		case err == nil && subtle.ConstantTimeCompare([]byte(was.Digest), []byte(k.Digest)) == 1:
			return u.shown(was), nil
		case err == nil:
			return bloom.APIKey{}, bloom.Conflict("A key with this id exists")
		case !isNotFound(err):
			return bloom.APIKey{}, err
		}
		is := k
		is.CreatedBy, is.CreatedAt = actor, u.Now
		is.LastUsedAt, is.RevokedAt, is.Status = nil, nil, ""
		u.saveKey(&is)
		u.news = append(u.news, bloom.Change{Kind: bloom.ChangeAccess})
		u.audit(bloom.ActionKeyCreated, bloom.EntityKey, is.ID, actor, string(is.Role)+" key "+is.Name, bloom.MustJSON(map[string]any{
			"name": is.Name, "role": is.Role, "worker_id": is.WorkerID, "expires_at": is.ExpiresAt}))
		return u.shown(&is), nil
	})
}

// RevokeKey revokes a key and ends its sessions.
func (s *Store) RevokeKey(ctx context.Context, id, actor string) (bloom.APIKey, error) {
	return do(ctx, s, func(r *ReadSet) { r.APIKeys.Add(id) }, func(u *Unit) (bloom.APIKey, error) {
		k, err := u.apiKey(id)
		if err != nil {
			return bloom.APIKey{}, err
		}
		if k.RevokedAt == nil {
			k.RevokedAt = new(u.Now)
			u.saveKey(k)
			u.c.Removal.SessionsOf = append(u.c.Removal.SessionsOf, id)
			u.news = append(u.news, bloom.Change{Kind: bloom.ChangeAccess})
			u.audit(bloom.ActionKeyRevoked, bloom.EntityKey, id, actor, string(k.Role)+" key "+k.Name, bloom.MustJSON(map[string]any{"name": k.Name, "role": k.Role}))
		}
		return u.shown(k), nil
	})
}

// Keys lists the newest first.
func (s *Store) Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	keys, next, err := s.db.Keys(ctx, p)
	if err != nil {
		return nil, next, err
	}
	now, err := s.now(ctx)
	for i := range keys {
		keys[i].Status = keys[i].StatusAt(now)
	}
	return keys, next, err
}

// session is a session under its lock that has not expired.
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
		return nil, u.lacks(id, func() { u.need.Sessions.Add(id) })
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

// saveSession leaves a session to be written.
func (u *Unit) saveSession(x *bloom.StoredSession) {
	u.dirt = true
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
			return *was, nil // the call is repeated
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

// RenewSession gives a session another turn and life.
func (s *Store) RenewSession(ctx context.Context, id string, turn int64, life time.Duration) (bloom.StoredSession, error) {
	return do(ctx, s, func(r *ReadSet) { r.Sessions.Add(id) }, func(u *Unit) (bloom.StoredSession, error) {
		x, err := u.session(id)
		if err != nil {
			return bloom.StoredSession{}, err
		}
		if x.Turn == turn {
			x.Turn, x.TurnedAt, x.LastUsedAt, x.ExpiresAt = turn+1, u.Now, u.Now, u.Now+life.Milliseconds()
			u.saveSession(x)
			u.news = append(u.news, bloom.Change{Kind: bloom.ChangeAccess})
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
		u.news = append(u.news, bloom.Change{Kind: bloom.ChangeAccess})
		u.audit(bloom.ActionSessionEnded, bloom.EntitySession, id, actor, "Session of "+x.Name, bloom.MustJSON(map[string]any{"name": x.Name, "key_id": x.KeyID}))
		return struct{}{}, nil
	})
	return err
}

// Sessions lists those that have not expired, the newest first.
func (s *Store) Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	all, next, err := s.db.Sessions(ctx, p)
	if err != nil {
		return nil, next, err
	}
	now, err := s.now(ctx)
	live := all[:0]
	for _, x := range all {
		if x.ExpiresAt > now {
			live = append(live, x)
		}
	}
	return live, next, err
}

// NoteUse records when keys and sessions were last used.
func (s *Store) NoteUse(ctx context.Context, keys, sessions map[string]int64) error {
	_, err := apart(ctx, s, func(r *ReadSet) {
		for id := range keys {
			r.APIKeys.Add(id)
		}
		for id := range sessions {
			r.Sessions.Add(id)
		}
	}, func(u *Unit) (struct{}, error) {
		for id, at := range keys {
			k, err := u.apiKey(id)
			switch {
			case isNotFound(err):
			case err != nil:
				return struct{}{}, err
			case k.LastUsedAt == nil || *k.LastUsedAt < at:
				k.LastUsedAt = new(at)
				u.saveKey(k)
			}
		}
		for id, at := range sessions {
			x, err := u.session(id)
			switch {
			case isNotFound(err):
			case err != nil:
				return struct{}{}, err
			case x.LastUsedAt < at:
				x.LastUsedAt = at
				u.saveSession(x)
			}
		}
		return struct{}{}, nil
	})
	return err
}
