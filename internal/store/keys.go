package store

import (
	"context"
	"crypto/subtle"
	"maps"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var errNoKey = bloom.NotFound("Key")

var apiKeys = table("api_keys", "id text, name text, role text, worker_id text, digest text, created_at bigint, created_by text, expires_at bigint, "+
	"last_used_at bigint, revoked_at bigint", "",
	func(v []any, id string, k *contract.StoredKey) []any {
		return append(v, id, k.Name, string(k.Role), k.WorkerID, k.Digest, k.CreatedAt, k.CreatedBy, k.ExpiresAt, k.LastUsedAt, k.RevokedAt)
	}, nil)

const keyColumns = `x.id, x.name, x.role, x.worker_id, x.digest, x.created_at, x.created_by, x.expires_at, x.last_used_at, x.revoked_at`

func keyFields(k *contract.StoredKey) []any {
	return []any{&k.ID, &k.Name, &k.Role, &k.WorkerID, &k.Digest, &k.CreatedAt, &k.CreatedBy, &k.ExpiresAt, &k.LastUsedAt, &k.RevokedAt}
}

func loadAPIKeys(l *Load, v *Values[string, *contract.StoredKey]) {
	pickRows(l, v, "x", keyColumns, keyFields, func(k *contract.StoredKey) string { return k.ID })
}

// apiKey returns a locked key.
func (u *Unit) apiKey(id string) (*contract.StoredKey, error) {
	k, err := apiKeys.get(u, id)
	if err == nil && k == nil {
		err = errNoKey
	}
	return k, err
}

func (u *Unit) withStatus(k *contract.StoredKey) bloom.APIKey {
	key := k.APIKey
	key.Status = key.StatusAt(u.Now)
	return key
}

// CreateKey stores a key.
func (s *Store) CreateKey(ctx context.Context, k contract.StoredKey, actor string) (bloom.APIKey, error) {
	return do(ctx, s, func(r *Rows) { apiKeys.want(r, k.ID) }, func(u *Unit) (bloom.APIKey, error) {
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
		apiKeys.put(u, k.ID, &created)
		u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeAccess})
		u.audit(audit.ActionKeyCreated, audit.EntityKey, created.ID, actor, string(created.Role)+" key "+created.Name, storable.MustJSON(map[string]any{
			"name": created.Name, "role": created.Role, "worker_id": created.WorkerID, "expires_at": created.ExpiresAt}))
		return u.withStatus(&created), nil
	})
}

// RevokeKey revokes a key and ends its sessions.
func (s *Store) RevokeKey(ctx context.Context, id, actor string) (bloom.APIKey, error) {
	return do(ctx, s, func(r *Rows) { apiKeys.want(r, id) }, func(u *Unit) (bloom.APIKey, error) {
		k, err := u.apiKey(id)
		if err != nil {
			return bloom.APIKey{}, err
		}
		if k.RevokedAt == nil {
			k.RevokedAt = new(u.Now)
			apiKeys.put(u, id, k)
			u.c.Removal.SessionsOf = append(u.c.Removal.SessionsOf, id)
			u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeAccess})
			u.audit(audit.ActionKeyRevoked, audit.EntityKey, id, actor, string(k.Role)+" key "+k.Name, storable.MustJSON(map[string]any{"name": k.Name, "role": k.Role}))
		}
		return u.withStatus(k), nil
	})
}

// Keys lists keys, the newest first.
func (s *Store) Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	keys, next, err := s.storedKeys(ctx, p)
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
func (s *Store) NoteUse(ctx context.Context, keys, used map[string]int64) error {
	_, err := doUnbatched(ctx, s, func(r *Rows) {
		apiKeys.want(r, slices.Collect(maps.Keys(keys))...)
		sessions.want(r, slices.Collect(maps.Keys(used))...)
	}, func(u *Unit) (struct{}, error) {
		for id, at := range keys {
			k, err := u.apiKey(id)
			switch {
			case isNotFound(err):
			case err != nil:
				return struct{}{}, err
			case k.LastUsedAt == nil || *k.LastUsedAt < at:
				k.LastUsedAt = new(at)
				apiKeys.put(u, id, k)
			}
		}
		for id, at := range used {
			x, err := u.session(id)
			switch {
			case isNotFound(err):
			case err != nil:
				return struct{}{}, err
			case x.LastUsedAt < at:
				x.LastUsedAt = at
				sessions.put(u, id, x)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Key reads one key.
func (s *Store) Key(ctx context.Context, id string) (contract.StoredKey, error) {
	missing := bloom.NotFound("Key")
	if id != storable.Text(id) {
		return contract.StoredKey{}, missing
	}
	return single(ctx, s, keyFields, missing, `SELECT `+keyColumns+` FROM api_keys x WHERE x.id = $1`, id)
}

// AnyKey reports whether a key was ever created.
func (s *Store) AnyKey(ctx context.Context) (bool, error) {
	return single(ctx, s, Self[bool], nil, `SELECT EXISTS (SELECT 1 FROM api_keys)`)
}

// Keys lists keys, the newest first.
func (s *Store) storedKeys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	known, next, err := list(ctx, s, &listing[contract.StoredKey]{from: "api_keys", as: "x", columns: keyColumns, fields: keyFields}, p)
	keys := make([]bloom.APIKey, 0, len(known))
	for _, k := range known {
		keys = append(keys, k.APIKey)
	}
	return keys, next, err
}
