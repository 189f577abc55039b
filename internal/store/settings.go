package store

import (
	"context"
	"maps"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// setting is a setting as it is stored; one that is "" is not.
type setting struct {
	Value     string
	UpdatedAt int64
}

var settings = table("runtime_settings", "key text, value text, updated_at bigint", "",
	func(v []any, name string, is *setting) []any { return append(v, name, is.Value, is.UpdatedAt) }, nil)

func loadSettings(l *Load, v *Values[string, *setting]) {
	l.Pick(scan(func(s *keyed[setting]) []any { return []any{&s.key, &s.value.Value, &s.value.UpdatedAt} }, func(s *keyed[setting]) { v.Set(s.key, &s.value) }),
		`SELECT x.key, x.value, x.updated_at FROM runtime_settings x`, "x.key", "text", v.Keys(), l.lock("x"))
}

// AppendAudit writes an audit entry that belongs to no other change.
func (s *Store) AppendAudit(ctx context.Context, a bloom.Audit) error {
	_, err := do(ctx, s, func(*Rows) {}, func(u *Unit) (struct{}, error) {
		u.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
		return struct{}{}, nil
	})
	return err
}

// PutSettings writes settings and the audit entry of the change in one transaction.
func (s *Store) PutSettings(ctx context.Context, values map[string]string, a bloom.Audit) error {
	return s.ReplaceSettings(ctx, nil, values, a)
}

// ReplaceSettings is PutSettings if the settings still have the values was. An entry without an
// action is for the program's own records: nothing is audited or published.
func (s *Store) ReplaceSettings(ctx context.Context, was, values map[string]string, a bloom.Audit) error {
	names := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(values)))
	_, err := do(ctx, s, func(r *Rows) { settings.want(r, names...) }, func(u *Unit) (struct{}, error) {
		for name, value := range was {
			is, err := settings.get(u, name)
			switch {
			case err != nil:
				return struct{}{}, err
			case (is == nil && value != "") || (is != nil && is.Value != value):
				return struct{}{}, bloom.Conflict("The settings were changed in the meantime")
			}
		}
		for name, value := range values {
			if _, err := settings.get(u, name); err != nil {
				return struct{}{}, err
			}
			is := &setting{value, u.Now}
			if value == "" {
				is = nil
			}
			settings.put(u, name, is)
		}
		if a.Action != "" {
			u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeSettings})
			u.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
		}
		return struct{}{}, nil
	})
	return err
}

// Settings reads all settings.
func (s *Store) Settings(ctx context.Context) (map[string]string, error) {
	pairs, err := all(ctx, s, func(p *[2]string) []any { return []any{&p[0], &p[1]} }, `SELECT key, value FROM runtime_settings`)
	if err != nil {
		return nil, err
	}
	settings := make(map[string]string, len(pairs))
	for _, p := range pairs {
		settings[p[0]] = p[1]
	}
	return settings, nil
}
