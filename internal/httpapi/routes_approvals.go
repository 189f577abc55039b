package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom"
)

type approvalFilter struct {
	Paging
	Status    string `query:"status" enum:"pending,allowed,denied,expired,cancelled"`
	TaskID    string `query:"task_id"`
	ContextID string `query:"context_id"`
}

func (s *Server) approvalRoutes() {
	const path = runtimePath + "/approvals"
	handle(s, route{method: http.MethodGet, path: path, id: "list-approvals", summary: "Requests to people, newest first", tag: "tasks"}, s.listApprovals)
	handle(s, route{method: http.MethodGet, path: path + "/{id}", id: "get-approval", summary: "One request", tag: "tasks"},
		func(ctx context.Context, _ *call, in *pathID) (*reply[bloom.Approval], error) {
			return approvalReply(s.store.Approval(ctx, in.ID))
		})
	handle(s, route{method: http.MethodPost, path: path + "/{id}", id: "decide-approval", summary: "Allow or deny what a request asks", tag: "tasks", body: bloom.Decision{}},
		func(ctx context.Context, c *call, in *pathID) (*reply[bloom.Approval], error) {
			var d bloom.Decision
			if err := s.decode(c, limitBody, &d); err != nil {
				return nil, err
			}
			return approvalReply(s.svc.Decide(ctx, in.ID, d, c.caller.Name))
		})
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/ask", id: "ask-approval", summary: "Ask people about a call, or read what they decided", tag: "leases", body: bloom.Ask{}},
		func(ctx context.Context, c *call, in *pathID) (*reply[bloom.Approval], error) {
			var q bloom.Ask
			if err := s.decode(c, limitBody, &q); err != nil {
				return nil, err
			}
			if err := s.mayUse(ctx, c, in.ID, q.LeaseID); err != nil {
				return nil, err
			}
			if q.WaitMS > 0 {
				s.allowUntil(c.w, time.Duration(q.WaitMS)*time.Millisecond+30*time.Second)
			}
			return approvalReply(s.svc.Ask(ctx, in.ID, q))
		})
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/suspend", id: "suspend-task", large: true, summary: "End a lease whose run waits for a person; the attempt is refunded", tag: "leases", body: bloom.SuspendSpec{}},
		func(ctx context.Context, c *call, in *pathID) (*reply[bloom.Task], error) {
			var spec bloom.SuspendSpec
			if err := s.decode(c, limitBody, &spec); err != nil {
				return nil, err
			}
			if err := s.mayUse(ctx, c, in.ID, spec.LeaseID); err != nil {
				return nil, err
			}
			return taskReply(s.svc.Suspend(ctx, in.ID, spec, actorOf(c, "")))
		})
}

func approvalReply(a bloom.Approval, err error) (*reply[bloom.Approval], error) {
	return &reply[bloom.Approval]{http.StatusOK, a}, err
}

func (s *Server) listApprovals(ctx context.Context, c *call, in *approvalFilter) (*page[bloom.Approval], error) {
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	status := bloom.ApprovalStatus(in.Status)
	if err := checkFilter("status", status, bloom.ApprovalPending, bloom.ApprovalAllowed, bloom.ApprovalDenied, bloom.ApprovalExpired, bloom.ApprovalCancelled); err != nil {
		return nil, err
	}
	list, next, err := s.store.Approvals(ctx, bloom.ApprovalQuery{Status: status, TaskID: in.TaskID, ContextID: in.ContextID, Page: p})
	return paged(c, list, next), err
}
