package store

import (
	"context"
	"crypto/subtle"

	"github.com/bloom-runtime/bloom"
)

var errNoKey = bloom.NotFound("Key")

// access is the keys and sessions that a unit has read or changed.
type access struct {
	keys     map[string]*bloom.StoredKey
	sessions map[string]*bloom.StoredSession // nil: removed
	saved    Set[string]                     // ids in Changes
}

// apiKey returns a locked key.
func (u *Unit) apiKey(id string) (*bloom.StoredKey, error) {
	if k, ok := u.access.keys[id]; ok {
		return k, nil
	}
	was, ok := u.rows.APIKeys[id]
	switch {
	case !ok:
		return nil, u.require(id, func() { u.missing.APIKeys.Add(id) })
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

// saveKey adds a key to the changes.
func (u *Unit) saveKey(k *bloom.StoredKey) {
	u.dirty = true
	u.putKey(k)
	if _, ok := u.access.saved[k.ID]; !ok {
		u.access.saved.Add(k.ID)
		u.c.APIKeys = append(u.c.APIKeys, k)
	}
}

func (u *Unit) withStatus(k *bloom.StoredKey) bloom.APIKey {
	key := k.APIKey
	key.Status = key.StatusAt(u.Now)
	return key
}

// CreateKey stores a key.
func (s *Store) CreateKey(ctx context.Context, k bloom.StoredKey, actor string) (bloom.APIKey, error) {
	return do(ctx, s, func(r *ReadSet) { r.APIKeys.Add(k.ID) }, func(u *Unit) (bloom.APIKey, error) {
		was, err := u.apiKey(k.ID)
		switch {
		case err == nil && subtle.ConstantTimeCompare([]byte(was.Digest), []byte(k.Digest)) == 1:
			return u.withStatus(was), nil
		case err == nil:
			return bloom.APIKey{}, bloom.Conflict("A key with this id exists")
		case !isNotFound(err):
			return bloom.APIKey{}, err
		}
		created := k
		created.CreatedBy, created.CreatedAt = actor, u.Now
		created.LastUsedAt, created.RevokedAt, created.Status = nil, nil, ""
		u.saveKey(&created)
		u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeAccess})
		u.audit(bloom.ActionKeyCreated, bloom.EntityKey, created.ID, actor, string(created.Role)+" key "+created.Name, bloom.MustJSON(map[string]any{
			"name": created.Name, "role": created.Role, "worker_id": created.WorkerID, "expires_at": created.ExpiresAt}))
		return u.withStatus(&created), nil
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
			u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeAccess})
			u.audit(bloom.ActionKeyRevoked, bloom.EntityKey, id, actor, string(k.Role)+" key "+k.Name, bloom.MustJSON(map[string]any{"name": k.Name, "role": k.Role}))
		}
		return u.withStatus(k), nil
	})
}

// Keys lists keys, the newest first.
func (s *Store) Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	keys, next, err := s.db.Keys(ctx, p)
	if err != nil {
		return nil, next, err
	}
	now, err := s.Time(ctx)
	for i := range keys {
		keys[i].Status = keys[i].StatusAt(now)
	}
	return keys, next, err
}

// NoteUse records when keys and sessions were last used.
func (s *Store) NoteUse(ctx context.Context, keys, sessions map[string]int64) error {
	_, err := doUnbatched(ctx, s, func(r *ReadSet) {
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
