package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// dangling reports rows of tasks that do not exist.
func (c *checker) dangling() {
	known := map[string]bool{}
	for _, t := range c.tasks {
		known[t.ID] = true
	}
	leases, err := pages(func(p bloom.Page) ([]bloom.Lease, bloom.Cursor, error) {
		return c.s.Leases(c.ctx, bloom.LeaseQuery{Page: p})
	})
	c.try(err)
	for _, l := range leases {
		if !known[l.TaskID] {
			c.wrong("lease %s belongs to task %s, which is not there", l.ID, l.TaskID)
		}
	}
	artifacts, err := pages(func(p bloom.Page) ([]bloom.Artifact, bloom.Cursor, error) {
		return c.s.Artifacts(c.ctx, bloom.ArtifactQuery{Page: p})
	})
	c.try(err)
	for _, a := range artifacts {
		if !known[a.TaskID] {
			c.wrong("artifact %s belongs to task %s, which is not there", a.ID, a.TaskID)
		}
	}
}

// cuts reads from the audit the time before which rows may be missing, by the action that
// removed them.
func cuts(entries []bloom.Audit) map[string]int64 {
	latest := map[string]int64{}
	for _, a := range entries {
		var cut contract.AuditCut
		if a.EntityType == audit.EntityRetention && json.Unmarshal(a.Data, &cut) == nil {
			latest[a.Action] = max(latest[a.Action], cut.Before)
		}
	}
	return latest
}

// modelKept is how long the model keeps ended tasks.
const modelKept = 40 * time.Second

// old removes old tasks from the store and from the model.
func (m *model) old(t *rapid.T) {
	before := m.now() - modelKept.Milliseconds()
	want := 0
	for _, task := range slices.Clone(m.tasks) {
		if !task.state.Status.Terminal() || task.state.UpdatedAt >= before {
			continue
		}
		want++
		m.tasks = slices.DeleteFunc(m.tasks, func(o *modelTask) bool { return o == task })
		m.leases = slices.DeleteFunc(m.leases, func(l *modelLease) bool { return l.task == task })
		m.gone = append(m.gone, task.id)
	}
	got := contract.Removed{}
	r := contract.RemoveRequest{OlderThan: modelKept, Limit: rapid.IntRange(1, 4).Draw(t, "batch")}
	for more := true; more; {
		did, err := m.h.s.RemoveTasks(m.h.ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		got.Add(did)
		r.After, more = did.Next, did.More
	}
	if got.Tasks != int64(want) {
		t.Fatalf("removed %d tasks, want %d", got.Tasks, want)
	}
	for _, id := range m.gone {
		if _, err := m.h.s.Task(m.h.ctx, id); !errors.Is(err, bloom.ErrTaskNotFound) {
			t.Fatalf("a removed task is found: %v", err)
		}
	}
}

// oldEvents and oldAudit change nothing that the model knows.
func (m *model) oldEvents(t *rapid.T) {
	if _, err := m.h.s.RemoveEvents(m.h.ctx, contract.RemoveRequest{OlderThan: modelKept}); err != nil {
		t.Fatal(err)
	}
}

func (m *model) oldAudit(t *rapid.T) {
	if _, err := m.h.s.RemoveAudit(m.h.ctx, contract.RemoveRequest{OlderThan: modelKept}); err != nil {
		t.Fatal(err)
	}
}
