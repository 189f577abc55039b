package contract

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// SuspendRequest suspends a task's run; see bloom.SuspendSpec.
type SuspendRequest struct {
	TaskID    string
	ContextID string // the task's
	bloom.SuspendSpec
	Actor string
}

// ApprovalStore keeps requests to people. Changes are published as changes of their tasks.
type ApprovalStore interface {
	// AskApproval stores a request under an active lease, ErrLeaseLost otherwise. The caller sets all
	// but AskedAt, ExpiresAt (which it sets to the time to wait), worker and context. The same ID
	// again returns the request as it is; if it is decided, its decision is carried out by this
	// lease, unless UsedBy names an earlier one. Conflict while the task asks for something else.
	AskApproval(ctx context.Context, leaseID string, a bloom.Approval) (bloom.Approval, error)
	// Suspend ends a lease whose run waits for a request; repeating it changes nothing.
	Suspend(ctx context.Context, r SuspendRequest) (bloom.Task, error)
	// Decide decides a pending request. Conflict for one that is not pending, or of another input.
	Decide(ctx context.Context, id string, d bloom.Decision, actor string) (bloom.Approval, error)
	// ExpireApprovals denies at most limit requests that nobody decided in time.
	ExpireApprovals(ctx context.Context, limit int) (int, error)
	// Approval returns one request; NotFound("Approval").
	Approval(ctx context.Context, id string) (bloom.Approval, error)
	// Approvals lists requests without their inputs, the newest first.
	Approvals(ctx context.Context, q bloom.ApprovalQuery) ([]bloom.Approval, bloom.Cursor, error)
}
