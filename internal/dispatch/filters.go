package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// settingFilter is the prefix of the settings that hold saved filters.
const settingFilter = "filter."

// Filters lists the saved filters by name.
func (s *Service) Filters(ctx context.Context) ([]bloom.TaskFilter, error) {
	saved, err := s.store.Settings(ctx)
	if err != nil {
		return nil, err
	}
	filters := []bloom.TaskFilter{}
	for key, value := range saved {
		name, ours := strings.CutPrefix(key, settingFilter)
		var f bloom.TaskFilter
		if ours && value != "" && json.Unmarshal([]byte(value), &f) == nil {
			f.Name = name
			filters = append(filters, f)
		}
	}
	slices.SortFunc(filters, func(a, b bloom.TaskFilter) int { return cmp.Compare(a.Name, b.Name) })
	return filters, nil
}

// Filter returns one saved filter.
func (s *Service) Filter(ctx context.Context, name string) (bloom.TaskFilter, error) {
	filters, err := s.Filters(ctx)
	if err != nil {
		return bloom.TaskFilter{}, err
	}
	if i := slices.IndexFunc(filters, func(f bloom.TaskFilter) bool { return f.Name == name }); i >= 0 {
		return filters[i], nil
	}
	return bloom.TaskFilter{}, bloom.NotFound("Filter")
}

// SaveFilter saves a filter, replacing one with the same name.
func (s *Service) SaveFilter(ctx context.Context, f bloom.TaskFilter, actor string) (bloom.TaskFilter, error) {
	if n := utf8.RuneCountInString(f.Name); n == 0 || n > MaxFilterName || f.Name != storable.Text(f.Name) || strings.TrimSpace(f.Name) != f.Name {
		return f, bloom.Invalid("The filter's name is invalid", bloom.FieldError{Field: "name", Message: "must be 1 to 64 characters of text"})
	}
	filters, err := s.Filters(ctx)
	if err != nil {
		return f, err
	}
	known := slices.ContainsFunc(filters, func(is bloom.TaskFilter) bool { return is.Name == f.Name })
	if !known && len(filters) >= MaxFilters {
		return f, bloom.Conflict("There are %d saved filters, which is the limit; delete one first", len(filters))
	}
	return f, s.store.PutSettings(ctx, map[string]string{settingFilter + f.Name: string(storable.MustJSON(f))}, bloom.Audit{
		Action: audit.ActionFilterSaved, EntityType: audit.EntityFilter, EntityID: f.Name, Actor: actor, Detail: "Saved the filter " + f.Name, Data: storable.MustJSON(f),
	})
}

// RemoveFilter deletes a saved filter.
func (s *Service) RemoveFilter(ctx context.Context, name, actor string) error {
	if _, err := s.Filter(ctx, name); err != nil {
		return err
	}
	return s.store.PutSettings(ctx, map[string]string{settingFilter + name: ""}, bloom.Audit{
		Action: audit.ActionFilterRemoved, EntityType: audit.EntityFilter, EntityID: name, Actor: actor, Detail: "Removed the filter " + name,
	})
}
