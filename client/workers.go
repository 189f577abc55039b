package client

import (
	"cmp"
	"context"
	"net/http"

	"github.com/bloom-runtime/bloom"
)

// WorkerDetail is a worker with the leases it holds.
type WorkerDetail struct {
	bloom.Worker
	Leases []bloom.Lease `json:"leases"`
}

// Workers returns all workers.
func (c *Client) Workers(ctx context.Context) ([]bloom.Worker, error) {
	return get[[]bloom.Worker](ctx, c, "/workers")
}

// Worker returns one worker, or bloom.ErrWorkerNotFound.
func (c *Client) Worker(ctx context.Context, id string) (WorkerDetail, error) {
	return get[WorkerDetail](ctx, c, "/workers/"+seg(id))
}

// Registered is the answer to a registration.
type Registered struct {
	bloom.Worker
	// MembridgeURL is the URL of the control plane; empty when the runtime has none configured.
	MembridgeURL string `json:"membridge_url"`
	Created      bool   `json:"-"` // the worker is new
}

// RegisterWorker creates or updates a worker. bloom.ErrWorkerConflict when another live instance has the
// name.
func (c *Client) RegisterWorker(ctx context.Context, w bloom.WorkerSpec) (Registered, error) {
	w.Status = cmp.Or(w.Status, bloom.WorkerOnline)
	w.Capabilities.MaxConcurrency = cmp.Or(w.Capabilities.MaxConcurrency, 1)
	w.Capabilities.Labels = orEmpty(w.Capabilities.Labels)
	w.IPAddrs = orEmpty(w.IPAddrs)
	r, meta, err := post[Registered](ctx, c, "/workers", w, safe)
	r.Created = meta.status == http.StatusCreated
	return r, err
}

// RemoveWorker removes a worker; its leases are released.
func (c *Client) RemoveWorker(ctx context.Context, id string) error {
	return c.remove(ctx, "/workers/"+seg(id))
}

// DrainWorker drains or undrains a worker at the runtime. The returned worker is still draining
// while the control plane drains it.
func (c *Client) DrainWorker(ctx context.Context, id string, drain bool) (bloom.Worker, error) {
	worker, _, err := post[bloom.Worker](ctx, c, "/workers/"+seg(id)+"/drain", struct {
		Drain bool `json:"drain"`
	}{drain}, safe)
	return worker, err
}

// ReportLogs reports the last lines of a worker's log.
func (c *Client) ReportLogs(ctx context.Context, id string, r bloom.LogReport) error {
	r.Lines = orEmpty(r.Lines)
	_, _, err := post[bloom.WorkerLogs](ctx, c, "/workers/"+seg(id)+"/logs", r, safe)
	return err
}

// WorkerLogs returns the last log lines that a worker reported, oldest first.
func (c *Client) WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error) {
	return get[bloom.WorkerLogs](ctx, c, "/workers/"+seg(id)+"/logs")
}
