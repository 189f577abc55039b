package e2e_test

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// invariants checks everything that the server shows against the invariants. The system should be
// idle.
func (h *harness) invariants() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience) // it reads every task
	defer cancel()
	return storetest.CheckInvariants(ctx, wire{api: h.api, url: h.url})
}

// wire presents a server's lists as a store, for the store's own checks.
type wire struct {
	contract.Store
	api *client.Client
	url string
}

func (w wire) Tasks(ctx context.Context, q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) {
	return w.api.Tasks(ctx, q)
}

func (w wire) AuditLinks(ctx context.Context, after int64, limit int) (bloom.ChainHead, audit.Link, []audit.Link, error) {
	return auditlog.Served(w.api.AuditChain).AuditLinks(ctx, after, limit)
}

func (w wire) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	return w.api.Contexts(ctx, q)
}

func (w wire) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	return w.api.Leases(ctx, q)
}

func (w wire) Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error) {
	return w.api.Audit(ctx, q)
}

func (w wire) Results(ctx context.Context, id string) ([]bloom.Result, error) {
	return w.api.Results(ctx, id)
}

func (w wire) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	return w.api.Artifact(ctx, id)
}

func (w wire) Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error) {
	return w.api.Artifacts(ctx, q)
}

func (w wire) Workers(ctx context.Context) ([]bloom.Worker, error) { return w.api.Workers(ctx) }

func (w wire) Stats(ctx context.Context) (bloom.Stats, error) { return w.api.Stats(ctx) }

// Events reads the existing events without waiting, because an unfinished task's stream has no end.
func (w wire) Events(ctx context.Context, id string, after int64, _ int) ([]bloom.Event, error) {
	task, err := w.api.Task(ctx, id)
	if err != nil || !task.Status.Terminal() || after > 0 {
		return nil, err
	}
	var events []bloom.Event
	for event, err := range w.api.FollowEvents(ctx, id, client.FollowOptions{}) {
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}
