package client

import (
	"context"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Approvals returns one page of requests to people, the newest first.
func (c *Client) Approvals(ctx context.Context, q bloom.ApprovalQuery) ([]bloom.Approval, bloom.Cursor, error) {
	return list[bloom.Approval](ctx, c, newQuery(q.Page).with("status", string(q.Status)).with("task_id", q.TaskID).with("context_id", q.ContextID).on("/approvals"))
}

// Approval returns one request.
func (c *Client) Approval(ctx context.Context, id string) (bloom.Approval, error) {
	return get[bloom.Approval](ctx, c, "/approvals/"+seg(id))
}

// Decide decides a request. A request is decided once: a second decision is a conflict.
func (c *Client) Decide(ctx context.Context, id string, d bloom.Decision) (bloom.Approval, error) {
	a, _, err := post[bloom.Approval](ctx, c, "/approvals/"+seg(id), d, unsafe)
	return a, err
}

// Ask asks people about a call under a lease, or returns what they have decided.
func (c *Client) Ask(ctx context.Context, taskID string, q bloom.Ask) (out bloom.Approval, err error) {
	raw, err := encode(q)
	if err != nil {
		return out, err
	}
	_, err = c.do(ctx, &call{method: http.MethodPost, path: "/llm-tasks/" + seg(taskID) + "/ask", body: raw, safety: safe, extra: time.Duration(q.WaitMS) * time.Millisecond}, &out)
	return out, err
}

// Suspend ends a lease whose run waits for a person. It is safe to repeat.
func (c *Client) Suspend(ctx context.Context, taskID string, s bloom.SuspendSpec) (bloom.Task, error) {
	task, _, err := post[bloom.Task](ctx, c, "/llm-tasks/"+seg(taskID)+"/suspend", s, safe)
	return task, err
}
