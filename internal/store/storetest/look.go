package storetest

import (
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Look reads through a store all that an import, a restored dump or an upgrade must
// keep.
func Look(t testing.TB, s contract.Store) map[string]any {
	t.Helper()
	all := map[string]any{}
	q := bloom.TaskQuery{Page: bloom.Page{Limit: bloom.MaxPageSize}}
	tasks, _, err := s.Tasks(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	all["tasks"] = tasks
	for _, task := range tasks {
		events, err := s.Events(t.Context(), task.ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		results, err := s.Results(t.Context(), task.ID)
		if err != nil {
			t.Fatal(err)
		}
		all["events "+task.ID], all["results "+task.ID] = events, results
	}
	leases, _, err := s.Leases(t.Context(), bloom.LeaseQuery{Page: q.Page})
	if err != nil {
		t.Fatal(err)
	}
	artifacts, _, err := s.Artifacts(t.Context(), bloom.ArtifactQuery{Page: q.Page})
	if err != nil {
		t.Fatal(err)
	}
	audit, _, err := s.Audit(t.Context(), bloom.AuditQuery{Page: q.Page})
	if err != nil {
		t.Fatal(err)
	}
	workers, err := s.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	settings, err := s.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	series, err := s.Series(t.Context(), 0, 1<<42, minute)
	if err != nil {
		t.Fatal(err)
	}
	all["series"] = series
	drains, err := s.ControlDrained(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all["drains"] = drains
	all["leases"], all["artifacts"], all["audit"], all["workers"], all["stats"], all["settings"] = leases, artifacts, audit, workers, stats, settings
	return all
}
