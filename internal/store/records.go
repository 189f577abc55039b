package store

import (
	"context"
	"maps"
	"slices"

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
	return s.ReplaceSettings(ctx, nil, settings, a)
}

// ReplaceSettings is PutSettings if the settings still have the values was. An entry without an
// action is for the program's own records: nothing is audited or published.
func (s *Store) ReplaceSettings(ctx context.Context, was, settings map[string]string, a bloom.Audit) error {
	_, err := do(ctx, s, func(r *ReadSet) { r.Settings.Add(slices.Collect(maps.Keys(was))...) }, func(u *Unit) (struct{}, error) {
		for name, value := range was {
			if now, err := u.setting(name); err != nil {
				return struct{}{}, err
			} else if now != value {
				return struct{}{}, bloom.Conflict("The settings were changed in the meantime")
			}
		}
		if u.c.Settings == nil {
			u.c.Settings = map[string]string{}
		}
		maps.Copy(u.c.Settings, settings)
		if a.Action != "" {
			u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeSettings})
			u.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
		}
		return struct{}{}, nil
	})
	return err
}

// setting returns the value of a locked setting, "" without one.
func (u *Unit) setting(name string) (string, error) {
	if v, ok := u.c.Settings[name]; ok {
		return v, nil
	}
	v, ok := u.rows.Settings[name]
	switch {
	case !ok:
		return "", u.require(SettingKey(name), func() { u.missing.Settings.Add(name) })
	case v == nil:
		return "", nil
	}
	return *v, nil
}

// SettingKey is the name of a setting in Rows.Busy.
func SettingKey(name string) string { return "setting:" + name }
