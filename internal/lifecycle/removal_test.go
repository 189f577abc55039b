package lifecycle_test

import (
	"encoding/json"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func TestOnlyTasksThatEndedBeforeAreRemoved(t *testing.T) {
	t.Parallel()
	for _, status := range bloom.TaskStatuses {
		for updated, old := range map[int64]bool{999: true, 1000: false, 1001: false} {
			got := lifecycle.Removable(bloom.TaskState{Status: status, UpdatedAt: updated}, 1000)
			if want := old && status.Terminal(); got != want {
				t.Errorf("%s since %d may go before 1000: %v", status, updated, got)
			}
		}
	}
}

func TestOnlyAContextThatNothingHappensInMayBeForgotten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		x    bloom.Context
		want bool
	}{
		"long ago":            {bloom.Context{LastUsedAt: 900, UpdatedAt: 999}, true},
		"in progress":         {bloom.Context{LastUsedAt: 900, UpdatedAt: 999, Unfinished: 1}, false},
		"ended just now":      {bloom.Context{LastUsedAt: 900, UpdatedAt: 1000}, false},
		"with a task of late": {bloom.Context{LastUsedAt: 1000, UpdatedAt: 999}, false},
	} {
		if got := lifecycle.Forgettable(c.x, 1000); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestARemovalIsReportedWithItsCutoff(t *testing.T) {
	t.Parallel()
	r := contract.Removed{Tasks: 2, Events: 9, Contents: 1, Next: 5, More: true}
	a := lifecycle.RemovalAudit(audit.ActionTasksRemoved, r, 1_772_000_000_000)
	var cut contract.AuditCut
	if err := json.Unmarshal(a.Data, &cut); err != nil || cut.Tasks != 2 || cut.Before != 1_772_000_000_000 || cut.More {
		t.Errorf("data %s, %v", a.Data, err)
	}
	if a.Detail != "Removed 2 tasks, 9 events from before 2026-02-25T06:13:20Z" || a.EntityID != "tasks" {
		t.Errorf("detail %q of %q", a.Detail, a.EntityID)
	}
}
