package bloom_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

func TestOnlyWhatEndedBeforeMayGo(t *testing.T) {
	t.Parallel()
	for _, status := range bloom.TaskStatuses {
		for updated, old := range map[int64]bool{999: true, 1000: false, 1001: false} {
			got := bloom.Removable(bloom.TaskState{Status: status, UpdatedAt: updated}, 1000)
			if want := old && status.Terminal(); got != want {
				t.Errorf("%s since %d may go before 1000: %v", status, updated, got)
			}
		}
	}
}

func TestKeptForEverIsBeforeEverything(t *testing.T) {
	t.Parallel()
	tasks, events, audit := bloom.Keep{Events: time.Second}.Before(5000)
	if tasks != 0 || events != 4000 || audit != 0 {
		t.Errorf("before %d, %d, %d", tasks, events, audit)
	}
}

func TestABatchHasBounds(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-1: bloom.DefaultRemoveBatch, 0: bloom.DefaultRemoveBatch, 7: 7, 1 << 20: bloom.MaxRemoveBatch} {
		if got := (bloom.RemoveRequest{Limit: limit}).Batch(); got != want {
			t.Errorf("a limit of %d is %d, want %d", limit, got, want)
		}
	}
}

func TestARemovalIsToldWithItsCut(t *testing.T) {
	t.Parallel()
	r := bloom.Removed{Tasks: 2, Events: 9, Contents: 1, Next: 5, More: true}
	a := bloom.RemovalAudit(bloom.ActionTasksRemoved, r, 1_772_000_000_000)
	var cut bloom.AuditCut
	if err := json.Unmarshal(a.Data, &cut); err != nil || cut.Tasks != 2 || cut.Before != 1_772_000_000_000 || cut.More {
		t.Errorf("data %s, %v", a.Data, err)
	}
	if a.Detail != "Removed 2 tasks, 9 events of before 2026-02-25T06:13:20Z" || a.EntityID != "tasks" {
		t.Errorf("detail %q of %q", a.Detail, a.EntityID)
	}
	if s := (bloom.Removed{}).String(); strings.ContainsAny(s, "0123456789") {
		t.Errorf("nothing is told as %q", s)
	}
}
