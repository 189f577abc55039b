package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// AppendAudit writes an audit entry that belongs to no other change.
func (s *Store) AppendAudit(ctx context.Context, a bloom.Audit) error {
	_, err := do(ctx, s, func(*ReadSet) {}, func(u *Unit) (struct{}, error) {
		u.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
		return struct{}{}, nil
	})
	return err
}

// PutSettings writes settings and the audit entry of the change in one transaction.
func (s *Store) PutSettings(ctx context.Context, settings map[string]string, a bloom.Audit) error {
	_, err := do(ctx, s, func(*ReadSet) {}, func(u *Unit) (struct{}, error) {
		if u.c.Settings == nil {
			u.c.Settings = map[string]string{}
		}
		for k, v := range settings {
			u.c.Settings[k] = v
		}
		u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeSettings})
		u.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
		return struct{}{}, nil
	})
	return err
}
