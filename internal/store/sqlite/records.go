package sqlite

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// Artifact reads one artifact.
func (s *Store) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	return read(ctx, s, func(c *conn) (bloom.Artifact, error) { return c.artifact(id) })
}

// AppendAudit writes an entry that goes with no other change.
func (s *Store) AppendAudit(ctx context.Context, a bloom.Audit) error {
	_, err := write(ctx, s, func(t *tx) (struct{}, error) {
		t.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
		return struct{}{}, nil
	})
	return err
}

// Settings reads all settings.
func (s *Store) Settings(ctx context.Context) (map[string]string, error) {
	return read(ctx, s, func(c *conn) (map[string]string, error) {
		all := make(map[string]string)
		err := c.each(`SELECT key, value FROM runtime_settings`, func(r row) error {
			all[r.str(0)] = r.str(1)
			return nil
		})
		return all, err
	})
}

// PutSettings writes settings and the audit entry of the change together.
func (s *Store) PutSettings(ctx context.Context, settings map[string]string, a bloom.Audit) error {
	_, err := write(ctx, s, func(t *tx) (struct{}, error) {
		for k, v := range settings {
			if _, err := t.put(`INSERT INTO runtime_settings (key, value, updated_at) VALUES (?1, ?2, ?3)
				ON CONFLICT (key) DO UPDATE SET value = ?2, updated_at = ?3`, bloom.CleanText(k), bloom.CleanText(v), t.now); err != nil {
				return struct{}{}, err
			}
		}
		t.changes = append(t.changes, bloom.Change{Kind: bloom.ChangeSettings})
		t.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
		return struct{}{}, nil
	})
	return err
}
