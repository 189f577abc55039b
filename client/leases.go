package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/bloom-runtime/bloom"
)

// LeaseOptions selects the worker and the duration of a lease.
type LeaseOptions struct {
	WorkerID   string `json:"worker_id,omitempty"`   // empty: the server selects one
	TTLSeconds int    `json:"ttl_seconds,omitempty"` // 0: bloom.DefaultLeaseTTLSec
}

// Granted is a lease and its worker.
type Granted struct {
	Lease  bloom.Lease  `json:"lease"`
	Worker bloom.Worker `json:"worker"`
}

// Lease leases one queued task to a worker now; bloom.ErrNoWorker when none can take it.
func (c *Client) Lease(ctx context.Context, taskID string, o LeaseOptions) (Granted, error) {
	granted, _, err := post[Granted](ctx, c, "/llm-tasks/"+seg(taskID)+"/lease", o, unsafe)
	return granted, err
}

// Claim holds the parameters of a worker's long poll.
type Claim struct {
	InstanceID string
	Max        int                    // new tasks wanted; 0 when full
	Wait       time.Duration          // how long the server may wait for something to return; at most 60 s
	Held       []string               // leases that the worker holds, to renew
	Usage      map[string]bloom.Usage // what they have used so far, by lease id
	TTLSeconds int                    // of new leases; 0: bloom.DefaultLeaseTTLSec
	// Forgotten, when not nil, requests the contexts that were forgotten after this number.
	Forgotten *int64
	// ForgottenID is the context with that number. If it has another number, the server has
	// another database, or an older one, and all forgotten contexts are returned.
	ForgottenID string
}

// Claim requests work and renews the held leases. It returns as soon as there is something to
// report, or after Wait. It is never retried: a worker's loop claims again anyway, and leases whose
// response was lost come with the next claim.
func (c *Client) Claim(ctx context.Context, workerID string, r Claim) (bloom.ClaimResult, error) {
	raw, err := encode(struct {
		InstanceID string                 `json:"instance_id,omitempty"`
		Max        int                    `json:"max"`
		WaitSec    int                    `json:"wait_sec"`
		Held       []string               `json:"held"`
		Usage      map[string]bloom.Usage `json:"usage,omitempty"`
		TTLSeconds int                    `json:"ttl_seconds,omitempty"`
		Forgotten  *int64                 `json:"forgotten_after,omitempty"`
		LastID     string                 `json:"forgotten_id,omitempty"`
	}{r.InstanceID, r.Max, int(r.Wait / time.Second), orEmpty(r.Held), r.Usage, r.TTLSeconds, r.Forgotten, r.ForgottenID})
	if err != nil {
		return bloom.ClaimResult{}, err
	}
	var out bloom.ClaimResult
	once := c.WithRetry(NoRetry)
	_, err = once.do(ctx, &call{
		method: http.MethodPost, path: "/workers/" + seg(workerID) + "/claim", body: raw, extra: r.Wait,
	}, &out)
	return out, err
}

// Heartbeat renews a lease and reports whether the task is to be cancelled. The first heartbeat
// sets the task running. bloom.ErrLeaseLost when the lease is no longer current. An empty leaseID
// means the task's active lease. used, unless it is nil, is what the attempt has used so far.
func (c *Client) Heartbeat(ctx context.Context, taskID, leaseID string, used *bloom.Usage) (bloom.HeartbeatResult, error) {
	out, _, err := post[bloom.HeartbeatResult](ctx, c, "/llm-tasks/"+seg(taskID)+"/heartbeat", struct {
		LeaseID string       `json:"lease_id,omitempty"`
		Usage   *bloom.Usage `json:"usage,omitempty"`
	}{leaseID, used}, safe)
	return out, err
}

// Complete records the outcome of a lease. The same completion again returns the same answer, so
// the call is retried; bloom.ErrOtherOutcome when the lease was completed with something else,
// bloom.ErrLeaseLost when it is not current. Without a LeaseID the call is not idempotent and not
// retried.
func (c *Client) Complete(ctx context.Context, taskID string, done bloom.Completion) (bloom.Completed, error) {
	if done.ArtifactType == "" {
		done.ArtifactType = bloom.DefaultArtifactType
	}
	done.ArtifactTags = orEmpty(done.ArtifactTags)
	raw, err := encode(done)
	if err != nil {
		return bloom.Completed{}, err
	}
	return c.CompleteRaw(ctx, taskID, raw, done.LeaseID != "")
}

// CompleteRaw sends a completion that is already encoded, so that a delivery days later is
// identical to the first. idempotent reports that it names its lease.
func (c *Client) CompleteRaw(ctx context.Context, taskID string, body json.RawMessage, idempotent bool) (bloom.Completed, error) {
	var out bloom.Completed
	call := &call{
		method: http.MethodPost, path: "/llm-tasks/" + seg(taskID) + "/complete", body: body,
		// Allow time for a slow uplink: 32 KiB/s.
		extra: time.Duration(len(body)>>15) * time.Second,
	}
	if idempotent {
		call.safety = safe
	}
	_, err := c.do(ctx, call, &out)
	return out, err
}

// Release releases an unfinished lease; the attempt is refunded.
func (c *Client) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec) (bloom.Task, error) {
	task, _, err := post[bloom.Task](ctx, c, "/llm-tasks/"+seg(taskID)+"/release", r, safe)
	return task, err
}

// AppendEvents appends a worker's events to a task's stream. The server ignores events whose Seq it
// already has for this lease, so the call is idempotent.
func (c *Client) AppendEvents(ctx context.Context, taskID, leaseID string, events []bloom.WorkerEvent) error {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	for i := range events {
		if err := e.Encode(&events[i]); err != nil {
			return fmt.Errorf("encode event %d: %w", events[i].Seq, err)
		}
	}
	var out appended
	_, err := c.do(ctx, &call{
		method: http.MethodPost, path: "/llm-tasks/" + seg(taskID) + "/events?lease_id=" + url.QueryEscape(leaseID),
		body: body.Bytes(), contentType: "application/x-ndjson", safety: safe,
	}, &out)
	return err
}

// Leases returns one page of leases, newest first, and the cursor of the next page.
func (c *Client) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	return list[bloom.Lease](ctx, c, newQuery(q.Page).with("status", string(q.Status)).with("task_id", q.TaskID).with("worker_id", q.WorkerID).on("/leases"))
}

// AllLeases iterates over the leases from q's page on.
func (c *Client) AllLeases(ctx context.Context, q bloom.LeaseQuery) iter.Seq2[bloom.Lease, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Lease, bloom.Cursor, error) {
		q.Page = p
		return c.Leases(ctx, q)
	})
}
