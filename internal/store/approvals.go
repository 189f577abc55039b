package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var errNoApproval = bloom.NotFound("Approval")

var approvals = table("approvals", "id uuid, status text, decided_at bigint, decided_by text, message text, answers text, used_by text",
	"task_id uuid, context_id text, worker_id text, kind text, tool text, tool_use_id text, input text, input_sha256 text, readable text, asked_at bigint, expires_at bigint",
	func(v []any, id string, a *bloom.Approval) []any {
		return append(v, id, string(a.Status), a.DecidedAt, a.DecidedBy, a.Message, string(storable.MustJSON(a.Answers)), a.UsedBy)
	}, func(v []any, _ string, a *bloom.Approval) []any {
		return append(v, a.TaskID, a.ContextID, a.WorkerID, a.Kind, a.Tool, a.ToolUseID, string(a.Input), a.InputSHA256, a.Readable, a.AskedAt, a.ExpiresAt)
	})

// approvalColumns returns the columns with the given input and readable form.
func approvalColumns(input, readable string) string {
	return `a.id, a.task_id, a.context_id, a.worker_id, a.kind, a.tool, a.tool_use_id, ` + input + `, a.input_sha256, ` + readable + `, a.status, a.asked_at, a.expires_at,
	a.decided_at, a.decided_by, a.message, a.answers, a.used_by`
}

var wholeApproval = approvalColumns("a.input", "a.readable")

func approvalFields(a *bloom.Approval) []any {
	return []any{
		&a.ID, &a.TaskID, &a.ContextID, &a.WorkerID, &a.Kind, &a.Tool, &a.ToolUseID, (*verbatim)(&a.Input), &a.InputSHA256, &a.Readable, &a.Status, &a.AskedAt, &a.ExpiresAt,
		&a.DecidedAt, &a.DecidedBy, &a.Message, &object{&a.Answers}, &a.UsedBy,
	}
}

func loadApprovals(l *Load, v *Values[string, *bloom.Approval]) {
	pickRows(l, v, "a", wholeApproval, approvalFields, func(a *bloom.Approval) string { return a.ID })
}

// approvalText encodes where a task stands that asks people, "" for nil.
func approvalText(a *bloom.TaskApproval) string {
	if a == nil {
		return ""
	}
	return string(storable.MustJSON(a))
}

// standing scans what approvalText encoded.
type standing bloom.Task

// Scan implements sql.Scanner.
func (s *standing) Scan(src any) error {
	if is := text(src); is != "" {
		s.Approval = &bloom.TaskApproval{}
		_ = json.Unmarshal([]byte(is), s.Approval)
	}
	return nil
}

// asked is the part of a policy that says what people are asked about.
type asked struct {
	Approval  string   `json:"approval,omitempty"`
	Ask       []string `json:"ask,omitempty"`
	Questions bool     `json:"questions,omitempty"`
}

func askText(p bloom.Policy) string {
	if p.Approval == "" && len(p.Ask) == 0 && !p.Questions {
		return ""
	}
	return string(storable.MustJSON(asked{p.Approval, p.Ask, p.Questions}))
}

// asking scans what askText encoded.
type asking bloom.Policy

// Scan implements sql.Scanner.
func (p *asking) Scan(src any) error {
	if is := text(src); is != "" {
		var a asked
		_ = json.Unmarshal([]byte(is), &a)
		p.Approval, p.Ask, p.Questions = a.Approval, a.Ask, a.Questions
	}
	return nil
}

// AskApproval stores a worker's request, or returns it, and has its decision carried out once.
func (s *Store) AskApproval(ctx context.Context, leaseID string, a bloom.Approval) (bloom.Approval, error) {
	reads := func(r *Rows) {
		wantNamed(r, a.TaskID, leaseID)
		approvals.want(r, a.ID)
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.Approval, error) {
		t, l, err := u.named(a.TaskID, leaseID)
		if err != nil {
			return a, err
		}
		state, err := lifecycle.Asks(t.TaskState, *l, a.ID)
		if err != nil {
			return a, err
		}
		is, err := approvals.get(u, a.ID)
		if err != nil {
			return a, err
		}
		if is == nil {
			if t.Approval != nil && t.Approval.Asking != "" && t.Approval.Asking != a.ID {
				return a, bloom.Conflict("The task waits for the decision on another call")
			}
			asked := a
			asked.Status, asked.AskedAt, asked.ExpiresAt, asked.ContextID, asked.WorkerID = bloom.ApprovalPending, u.Now, u.Now+a.ExpiresAt, t.ContextID, l.WorkerID
			asked.DecidedAt, asked.DecidedBy, asked.Message = nil, nil, ""
			approvals.put(u, a.ID, &asked)
			t.TaskState = state
			tasks.put(u, t.ID, t)
			u.noteApproval(t, asked, audit.ActionApprovalAsked, bloom.EventAsked, l.WorkerID, "Asked whether "+asked.Tool+" may run")
			return asked, nil
		}
		if is.Status != bloom.ApprovalPending && is.UsedBy == "" {
			is.UsedBy = leaseID
			approvals.put(u, is.ID, is)
			t.TaskState = lifecycle.Answered(t.TaskState, is.ID)
			tasks.put(u, t.ID, t)
		}
		return *is, nil
	})
}

// noteApproval records what became of a request.
func (u *Unit) noteApproval(t *Task, a bloom.Approval, action, event, actor, detail string) {
	data := storable.MustJSON(map[string]any{"approval_id": a.ID, "kind": a.Kind, "tool": a.Tool, "tool_use_id": a.ToolUseID, "status": a.Status,
		"readable": storable.Cut(a.Readable, 4<<10), "message": a.Message, "answers": a.Answers, "input_sha256": a.InputSHA256, "by": actor})
	u.auditApproval(a, action, actor, detail)
	u.event(t, Event{Type: event, At: u.Now, Epoch: t.Epoch, Data: storable.EventData(data)})
	u.notifyTask(t, "")
}

func (u *Unit) auditApproval(a bloom.Approval, action, actor, detail string) {
	u.audit(action, audit.EntityApproval, a.ID, actor, detail, storable.MustJSON(map[string]any{
		"task_id": a.TaskID, "tool": a.Tool, "input_sha256": a.InputSHA256, "input": storable.Cut(string(a.Input), 16<<10), "status": a.Status, "message": a.Message, "answers": a.Answers}))
}

// Suspend ends a lease whose run waits for a person.
func (s *Store) Suspend(ctx context.Context, r contract.SuspendRequest) (bloom.Task, error) {
	reads := func(rows *Rows) {
		wantNamed(rows, r.TaskID, r.LeaseID)
		texts.want(rows, r.TaskID)
		transcripts.want(rows, r.ContextID)
		approvals.want(rows, r.ApprovalID)
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.Task, error) {
		t, l, err := u.named(r.TaskID, r.LeaseID)
		if err != nil {
			return bloom.Task{}, err
		}
		a, err := approvals.get(u, r.ApprovalID)
		if err == nil && (a == nil || a.TaskID != t.ID) {
			err = errNoApproval
		}
		if err != nil {
			return bloom.Task{}, err
		}
		tr, err := lifecycle.Suspend(t.TaskState, *l, *a, r.Metrics, u.Now)
		if err != nil {
			return bloom.Task{}, err
		}
		if !tr.Noop && tr.Task.Status == bloom.TaskQueued {
			was, err := transcripts.get(u, t.ContextID)
			if err != nil {
				return bloom.Task{}, err
			}
			kept, ok := was.SuspendedBy(t.ID, r.SuspendSpec)
			if !ok {
				return bloom.Task{}, bloom.Conflict("The transcript does not follow the stored one")
			}
			now := contract.WithSuspended(was, t.ID, &kept)
			u.c.Removal.URLs = append(u.c.Removal.URLs, now.Dropped(was)...)
			u.setTranscript(t.ContextID, &now)
		}
		if err := u.apply(t, l, tr, r.Actor); err != nil {
			return bloom.Task{}, err
		}
		return u.withText(t)
	})
}

// Decide decides a request.
func (s *Store) Decide(ctx context.Context, id string, d bloom.Decision, actor string) (bloom.Approval, error) {
	found, err := s.Approval(ctx, id)
	if err != nil {
		return found, err
	}
	reads := func(r *Rows) {
		tasks.want(r, found.TaskID)
		approvals.want(r, id)
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.Approval, error) {
		a, err := approvals.get(u, id)
		switch {
		case err != nil:
			return found, err
		case a == nil:
			return found, errNoApproval
		case a.Status != bloom.ApprovalPending:
			return *a, decidedAlready(*a)
		case a.InputSHA256 != d.InputSHA256:
			return *a, bloom.Conflict("The decision is about another input")
		}
		status := bloom.ApprovalDenied
		if d.Decision == "allow" {
			status = bloom.ApprovalAllowed
		}
		return u.decide(a, status, d.Message, d.Answers, actor)
	})
}

// decidedAlready refuses a second decision, and has the first.
func decidedAlready(a bloom.Approval) *bloom.Error {
	by := ""
	if a.DecidedBy != nil {
		by = ", decided by " + *a.DecidedBy
	}
	refused := bloom.Conflict("The request is %s already%s", a.Status, by)
	a.Input, a.Answers, a.Readable = nil, nil, storable.Cut(a.Readable, listedReadable)
	refused.Decided = &a
	return refused
}

// decide sets the outcome of a pending request, and opens the gate of its task.
func (u *Unit) decide(a *bloom.Approval, status bloom.ApprovalStatus, message string, answers map[string]string, actor string) (bloom.Approval, error) {
	t, err := u.task(a.TaskID)
	if err != nil {
		return *a, err
	}
	a.Status, a.DecidedAt, a.DecidedBy, a.Message, a.Answers = status, new(u.Now), &actor, message, answers
	approvals.put(u, a.ID, a)
	if at := t.Suspension(); at != nil && at.ApprovalID == a.ID {
		t.TaskState = lifecycle.Answered(t.TaskState, a.ID)
		tasks.put(u, t.ID, t)
		if t.Status == bloom.TaskQueued && t.Gate == contract.GateApproval {
			if err := u.open(t, lifecycle.OrderGate(t.TaskState, false, u.Now)); err != nil {
				return *a, err
			}
		}
	}
	u.noteApproval(t, *a, audit.ActionApprovalDecided, bloom.EventDecided, actor, fmt.Sprintf("%s is %s", a.Tool, status))
	return *a, nil
}

// approvalEnded cancels what a task asked that nobody needs to decide any more, and drops its
// suspended conversation if it has ended. actor is who ended the attempt.
func (u *Unit) approvalEnded(t *Task, before bloom.TaskState, actor string) error {
	was, is := before.Approval, t.Approval
	if was == nil || was == is {
		return nil
	}
	ids := []string{was.Asking}
	if was.Suspended != nil {
		ids = append(ids, was.Suspended.ApprovalID)
	}
	if is != nil && is.Suspended != nil {
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == is.Suspended.ApprovalID })
	}
	for _, id := range ids {
		if id == "" {
			continue
		}
		a, err := approvals.get(u, id)
		if err != nil {
			return err
		}
		if a != nil && a.Status == bloom.ApprovalPending {
			a.Status, a.DecidedAt, a.Message = bloom.ApprovalCancelled, new(u.Now), "The attempt that asked has ended"
			approvals.put(u, id, a)
			u.auditApproval(*a, audit.ActionApprovalDecided, actor, fmt.Sprintf("%s is %s", a.Tool, a.Status))
		}
	}
	if is == nil && was.Suspended != nil && u.completing != t.ID {
		return u.dropSuspended(t)
	}
	return nil
}

// expiryActor is the audit's actor of a request that nobody decided in time.
const expiryActor = "reaper"

// ExpireApprovals denies requests that nobody decided in time.
func (s *Store) ExpireApprovals(ctx context.Context, limit int) (int, error) {
	now, err := s.Time(ctx)
	if err != nil {
		return 0, err
	}
	due, err := all(ctx, s, approvalFields, `SELECT `+wholeApproval+` FROM approvals a WHERE a.status = 'pending' AND a.expires_at <= $1 ORDER BY a.seq LIMIT CAST($2 AS BIGINT)`, now, limit)
	if err != nil {
		return 0, err
	}
	for i, found := range due {
		reads := func(r *Rows) {
			tasks.want(r, found.TaskID)
			approvals.want(r, found.ID)
		}
		if _, err := do(ctx, s, reads, func(u *Unit) (bloom.Approval, error) {
			a, err := approvals.get(u, found.ID)
			if err != nil || a == nil || a.Status != bloom.ApprovalPending || a.ExpiresAt > u.Now {
				return found, err
			}
			return u.decide(a, bloom.ApprovalExpired, "Nobody decided in time", nil, expiryActor)
		}); err != nil {
			return i, err
		}
	}
	return len(due), nil
}

// Approval reads one request.
func (s *Store) Approval(ctx context.Context, id string) (bloom.Approval, error) {
	if !storable.IsID(id) {
		return bloom.Approval{}, errNoApproval
	}
	return single(ctx, s, approvalFields, errNoApproval, `SELECT `+wholeApproval+` FROM approvals a WHERE a.id = $1`, id)
}

// listedReadable is how many characters of the readable form lists show.
const listedReadable = 2000

// Approvals lists requests, the newest first.
func (s *Store) Approvals(ctx context.Context, q bloom.ApprovalQuery) ([]bloom.Approval, bloom.Cursor, error) {
	l := &listing[bloom.Approval]{from: "approvals", as: "a", columns: approvalColumns("''", cut("a.readable", listedReadable)), fields: approvalFields}
	switch {
	case q.TaskID != "" && !storable.IsID(q.TaskID):
		return []bloom.Approval{}, bloom.Cursor{}, nil
	case q.TaskID != "":
		l.also("a.task_id", q.TaskID)
	}
	switch {
	case q.Status == bloom.ApprovalPending && l.by == "":
		l.first("a.status = 'pending' AND a.status = %s", string(q.Status))
	case q.Status != "":
		l.only("a.status", string(q.Status))
	}
	if q.ContextID != "" {
		l.only("a.context_id", q.ContextID)
	}
	return list(ctx, s, l, q.Page)
}
