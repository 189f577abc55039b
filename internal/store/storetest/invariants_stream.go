package storetest

import (
	"encoding/json"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/storable"
)

func movesTo(from, to audit.TaskState) bool {
	if from.Status == "" {
		return to.Status == bloom.TaskQueued && to.Epoch == 0
	}
	for _, e := range lifecycle.Edges {
		if e.From == from.Status && e.To == to.Status {
			return true
		}
	}
	return false
}

func (c *checker) stream(t *bloom.Task) {
	after := int64(0)
	cut := t.CreatedAt < max(c.cuts[audit.ActionEventsRemoved], c.cuts[audit.ActionTasksRemoved])
	// The audit entry of the removal may itself have been removed.
	cut = cut || t.CreatedAt < c.cuts[audit.ActionAuditRemoved]
	for {
		events, err := c.s.Events(c.ctx, t.ID, after, bloom.MaxPageSize)
		if err != nil || len(events) == 0 {
			c.try(err)
			return
		}
		for _, e := range events {
			if e.Seq != after+1 && !(after == 0 && cut) {
				c.wrong("the stream of task %s jumps from %d to %d", t.ID, after, e.Seq)
			}
			after = e.Seq
		}
	}
}

// replay checks every audited transition against the transition table, and the last
// audited state against the current one. It tolerates removed audit entries.
func (c *checker) replay(t *bloom.Task) {
	entries := c.audit[t.ID]
	state := audit.TaskState{}
	cut := t.CreatedAt < c.cuts[audit.ActionAuditRemoved]
	if cut && len(entries) == 0 && lifecycle.Removable(t.TaskState, c.cuts[audit.ActionAuditRemoved]) {
		return
	}
	if i := slices.IndexFunc(entries, func(a bloom.Audit) bool { return a.Action == audit.ActionTaskImported }); i >= 0 {
		entries = entries[:i+1]
	}
	for i := len(entries) - 1; i >= 0; i-- {
		a := entries[i]
		if a.EntityType != audit.EntityTask || a.Action == audit.ActionLeaseLost {
			continue
		}
		var next audit.TaskState
		if err := json.Unmarshal(a.Data, &next); err != nil || next.Status == "" {
			c.wrong("audit %d of task %s holds no state: %s", a.Seq, t.ID, a.Data)
			return
		}
		if cut || a.Action == audit.ActionTaskImported {
			cut, state = false, next
			continue
		}
		if a.Action == audit.ActionTaskCreated && state.Status.Terminal() && c.cuts[audit.ActionTasksRemoved]+c.cuts[audit.ActionAuditRemoved] > 0 {
			state = audit.TaskState{} // another task, with the ID of a removed one
		}
		if !movesTo(state, next) {
			c.wrong("audit %d: task %s moved from %q to %q by %s", a.Seq, t.ID, state.Status, next.Status, a.Action)
		}
		if next.Epoch < state.Epoch || next.Epoch > state.Epoch+1 {
			c.wrong("audit %d: task %s went from epoch %d to %d", a.Seq, t.ID, state.Epoch, next.Epoch)
		}
		state = next
	}
	now := lifecycle.Audited(t.TaskState)
	if state.RunAt == 0 {
		now.RunAt = 0 // entries of earlier versions do not have it
	}
	if got, want := string(storable.MustJSON(state)), string(storable.MustJSON(now)); got != want {
		c.wrong("the audit of task %s replays to %s, its state is %s", t.ID, got, want)
	}
}
