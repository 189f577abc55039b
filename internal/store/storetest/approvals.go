package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// call is a request about a call of a task.
func (h *harness) call(taskID, toolUse string) bloom.Approval {
	return bloom.Approval{ID: schema.NewID(h.now()), TaskID: taskID, Kind: bloom.ApprovalTool, Tool: "Bash", ToolUseID: toolUse, Input: json.RawMessage(`{"command":"git push"}`),
		InputSHA256: "sum", Readable: "git push", ExpiresAt: time.Hour.Milliseconds()}
}

func (h *harness) asks(l bloom.Lease, a bloom.Approval) bloom.Approval {
	h.Helper()
	is, err := h.s.AskApproval(h.ctx, l.ID, a)
	h.ok(err)
	return is
}

// suspended returns a task that waits for a decision, and its request.
func (h *harness) suspended(change ...func(*contract.NewTask)) (bloom.Task, bloom.Approval, contract.SuspendRequest) {
	h.Helper()
	task := h.create(change...)
	l := h.lease(task.ID, "w")
	h.heartbeat(l)
	a := h.asks(l, h.call(task.ID, "toolu_1"))
	r := contract.SuspendRequest{TaskID: task.ID, ContextID: task.ContextID, SuspendSpec: bloom.SuspendSpec{
		LeaseID: l.ID, ApprovalID: a.ID, Metrics: bloom.Metrics{DurationMS: 10, InputTokens: new(int64(7)), OutputTokens: new(int64(3))},
		Transcript: bloom.TranscriptUpdate{SessionID: "s", Size: 5, SHA256: "five", Base: new(""), Parts: []bloom.TranscriptPart{{URL: "file:five " + task.ID}}},
	}}
	is, err := h.s.Suspend(h.ctx, r)
	h.ok(err)
	if is.Status != bloom.TaskQueued || is.Attempts != 0 || is.Approval.Suspended.ApprovalID != a.ID || is.Approval.Suspended.Decided {
		h.Fatalf("suspended: %+v", is)
	}
	return task, a, r
}

func (h *harness) decides(a bloom.Approval, decision string) bloom.Approval {
	h.Helper()
	is, err := h.s.Decide(h.ctx, a.ID, bloom.Decision{Decision: decision, InputSHA256: a.InputSHA256, Message: "not on a Friday"}, "ann")
	h.ok(err)
	return is
}

func isConflict(err error) bool { return err != nil && bloom.KindOf(err) == bloom.KindConflict }

var approvalTests = map[string]func(*harness){
	"a suspended task waits without a lease until it is decided about, and its decision is carried out once": func(h *harness) {
		h.worker("w", 2)
		task, a, r := h.suspended()
		again, err := h.s.Suspend(h.ctx, r)
		h.ok(err)
		if again.Status != bloom.TaskQueued || len(h.claim("w", 1).Leases) != 0 {
			h.Fatalf("repeated: %+v", again)
		}
		h.turn(task.ID, contract.QueuePlace{Gate: contract.GateApproval})
		if _, _, err := h.s.LeaseTask(h.ctx, contract.LeaseRequest{TaskID: task.ID, WorkerID: "w", TTLSec: 60}); !isConflict(err) {
			h.Errorf("leased: %v", err)
		}
		if _, err := h.s.Decide(h.ctx, a.ID, bloom.Decision{Decision: "allow", InputSHA256: "other"}, "ann"); !isConflict(err) {
			h.Errorf("decided about another input: %v", err)
		}
		var decided atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := h.s.Decide(h.ctx, a.ID, bloom.Decision{Decision: "allow", InputSHA256: a.InputSHA256}, "ann")
				if err == nil {
					decided.Add(1)
				} else if !isConflict(err) {
					h.Error(err)
				}
			})
		}
		all.Wait()
		if decided.Load() != 1 {
			h.Errorf("decided %d times", decided.Load())
		}
		got := h.claim("w", 1).Leases
		if len(got) != 1 || got[0].Task.ID != task.ID || !got[0].Task.Approval.Suspended.Decided || got[0].Task.Attempts != 1 {
			h.Fatalf("claimed: %+v", got)
		}
		l := got[0].Lease
		if _, err := h.s.AskApproval(h.ctx, r.LeaseID, a); !errors.Is(err, bloom.ErrLeaseLost) {
			h.Errorf("asked under the lease that was suspended: %v", err)
		}
		for range 2 { // its answer may be lost
			if is := h.asks(l, a); is.Status != bloom.ApprovalAllowed || is.UsedBy != l.ID {
				h.Errorf("asked again: %+v", is)
			}
		}
		_, err = h.s.Release(h.ctx, task.ID, bloom.ReleaseSpec{LeaseID: l.ID}, "w")
		h.ok(err)
		next := h.claim("w", 1).Leases
		if len(next) != 1 || next[0].Task.Approval.Suspended == nil {
			h.Fatalf("the next attempt: %+v", next)
		}
		if is := h.asks(next[0].Lease, a); is.UsedBy != l.ID {
			h.Errorf("the decision was carried out twice: %+v", is)
		}
	},
	"a suspended task's conversation is its own until it completes, and its result has what all parts used": func(h *harness) {
		h.worker("w", 2)
		task, a, _ := h.suspended()
		if got, err := h.s.Transcript(h.ctx, task.ContextID); err != nil || got.SessionID != "" || got.Suspended(task.ID).SHA256 != "five" || !slices.Equal(got.URLs(), []string{"file:five " + task.ID}) {
			h.Fatalf("%+v, %v", got, err)
		}
		h.decides(a, "allow")
		l := h.claim("w", 1).Leases[0].Lease
		r := success(task.ID, l.ID, "done")
		r.ContextID, r.Completion.Metrics = task.ContextID, bloom.Metrics{DurationMS: 5, InputTokens: new(int64(1)), OutputTokens: new(int64(1))}
		r.Completion.Transcript = &bloom.TranscriptUpdate{SessionID: "s", Size: 9, SHA256: "nine", After: "five", Base: new(""), Parts: []bloom.TranscriptPart{{URL: "file:nine"}}}
		done := h.complete(r)
		if m := done.Result.Metrics; m.DurationMS != 15 || *m.InputTokens != 8 || *m.OutputTokens != 4 || done.Task.Approval != nil {
			h.Errorf("%+v", done)
		}
		if used := h.task(task.ID).Usage; used == nil || used.TokensUsed != 12 {
			h.Errorf("used: %+v", used)
		}
		got, err := h.s.Transcript(h.ctx, task.ContextID)
		h.ok(err)
		if got.SHA256 != "nine" || got.Workspace != nil || !slices.Equal(got.URLs(), []string{"file:five " + task.ID, "file:nine"}) || h.toDelete() != "[]" {
			h.Errorf("%+v, to delete: %s", got, h.toDelete())
		}
	},
	"what a suspended task asked is void once it is cancelled, and its conversation is deleted": func(h *harness) {
		h.worker("w", 2)
		task, a, _ := h.suspended()
		_, err := h.s.Cancel(h.ctx, task.ID, "ann")
		h.ok(err)
		is, err := h.s.Approval(h.ctx, a.ID)
		h.ok(err)
		if _, err := h.s.Decide(h.ctx, a.ID, bloom.Decision{Decision: "allow", InputSHA256: a.InputSHA256}, "ann"); !isConflict(err) || is.Status != bloom.ApprovalCancelled {
			h.Errorf("%+v: %v", is, err)
		}
		if said, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: audit.ActionApprovalDecided}); err != nil || len(said) != 1 || said[0].EntityID != a.ID || said[0].Actor != "ann" || !strings.Contains(string(said[0].Data), `"status":"cancelled"`) {
			h.Errorf("the audit: %+v, %v", said, err)
		}
		if gone := h.toDelete(); gone != "[file:five "+task.ID+"]" {
			h.Errorf("to delete: %q", gone)
		}
		h.ok(h.s.ForgetContext(h.ctx, task.ContextID, "ann"))
	},
	"a request that nobody decides is denied in the end, and an ordered task behind it waits": func(h *harness) {
		h.worker("w", 2)
		ordered := func(n *contract.NewTask) { n.Spec.Policy.Ordered = true }
		task, a, _ := h.suspended(ordered)
		second := h.create(ordered)
		h.turn(second.ID, contract.QueuePlace{Gate: contract.GateOrdered, Before: task.ID})
		if err := h.s.ForgetContext(h.ctx, task.ContextID, "ann"); !isConflict(err) {
			h.Errorf("forgotten: %v", err)
		}
		h.advance(2 * time.Hour)
		h.reap(contract.Reaped{})
		if is, err := h.s.Approval(h.ctx, a.ID); err != nil || is.Status != bloom.ApprovalExpired {
			h.Fatalf("%+v, %v", is, err)
		}
		if got := h.claim("w", 2).Leases; len(got) != 1 || got[0].Task.ID != task.ID {
			h.Errorf("claimed: %+v", got)
		}
	},
	"what an attempt asked is void when its lease is lost": func(h *harness) {
		h.worker("w", 2)
		task := h.create()
		l := h.lease(task.ID, "w")
		a := h.asks(l, h.call(task.ID, "toolu_1"))
		if _, err := h.s.AskApproval(h.ctx, l.ID, h.call(task.ID, "toolu_2")); !isConflict(err) {
			h.Errorf("two questions at once: %v", err)
		}
		pending, _, err := h.s.Approvals(h.ctx, bloom.ApprovalQuery{Status: bloom.ApprovalPending})
		h.ok(err)
		if len(pending) != 1 || pending[0].ID != a.ID || len(pending[0].Input) != 0 || pending[0].Readable != "git push" {
			h.Errorf("%+v", pending)
		}
		h.advance(2 * time.Minute)
		h.reap(contract.Reaped{Requeued: 1})
		if is, err := h.s.Approval(h.ctx, a.ID); err != nil || is.Status != bloom.ApprovalCancelled {
			h.Errorf("%+v, %v", is, err)
		}
		if got := h.claim("w", 1).Leases; len(got) != 1 || got[0].Task.Approval != nil {
			h.Errorf("claimed: %+v", got)
		}
	},
}
