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

// LeaseOptions says to whom a task is given and for how long.
type LeaseOptions struct {
	WorkerID   string `json:"worker_id,omitempty"`   // empty: the server picks
	TTLSeconds int    `json:"ttl_seconds,omitempty"` // 0: bloom.DefaultLeaseTTLSec
}

// Granted is a lease and who got it.
type Granted struct {
	Lease  bloom.Lease  `json:"lease"`
	Worker bloom.Worker `json:"worker"`
}

// Lease gives one queued task to a worker now; bloom.ErrNoWorker when nobody
// can take it.
func (c *Client) Lease(ctx context.Context, taskID string, o LeaseOptions) (Granted, error) {
	granted, _, err := post[Granted](ctx, c, "/llm-tasks/"+seg(taskID)+"/lease", o, unsafe)
	return granted, err
}

// Claim is a worker's long poll.
type Claim struct {
	InstanceID string
	Max        int           // new tasks wanted; 0 when full
	Wait       time.Duration // how long the server may wait for something to say; at most 60 s
	Held       []string      // leases the worker holds; they are renewed
	TTLSeconds int           // of new leases; 0: bloom.DefaultLeaseTTLSec
	// Forgotten, when not nil, asks for the contexts that were forgotten after it.
	Forgotten *int64
}

// Claim asks for work and renews what is held. It returns as soon as there is
// something to say, or when Wait is over. It is never repeated by itself: a
// worker's loop comes back anyway, and leases whose answer was lost come with
// the next one.
func (c *Client) Claim(ctx context.Context, workerID string, r Claim) (bloom.ClaimResult, error) {
	raw, err := encode(struct {
		InstanceID string   `json:"instance_id,omitempty"`
		Max        int      `json:"max"`
		WaitSec    int      `json:"wait_sec"`
		Held       []string `json:"held"`
		TTLSeconds int      `json:"ttl_seconds,omitempty"`
		Forgotten  *int64   `json:"forgotten_after,omitempty"`
	}{r.InstanceID, r.Max, int(r.Wait / time.Second), orEmpty(r.Held), r.TTLSeconds, r.Forgotten})
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

// Heartbeat renews a lease and tells whether the task is to be cancelled; the
// first one makes the task running. bloom.ErrLeaseLost when the lease is no
// longer current. An empty leaseID means the task's active lease.
func (c *Client) Heartbeat(ctx context.Context, taskID, leaseID string) (bloom.HeartbeatResult, error) {
	out, _, err := post[bloom.HeartbeatResult](ctx, c, "/llm-tasks/"+seg(taskID)+"/heartbeat", struct {
		LeaseID string `json:"lease_id,omitempty"`
	}{leaseID}, safe)
	return out, err
}

// Complete records how a lease ended. The same completion again gets the same
// answer, so a lost one is repeated; bloom.ErrOtherOutcome says that the lease
// was completed with something else, bloom.ErrLeaseLost that it is not current.
// Without a LeaseID the call is not safe to repeat, and is not.
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

// CompleteRaw sends a completion that is JSON already, so that a delivery of
// days later is byte for byte the first one. repeatable says that it names its
// lease.
func (c *Client) CompleteRaw(ctx context.Context, taskID string, body json.RawMessage, repeatable bool) (bloom.Completed, error) {
	var out bloom.Completed
	call := &call{
		method: http.MethodPost, path: "/llm-tasks/" + seg(taskID) + "/complete", body: body,
		// 32 MB over a slow uplink takes its time.
		extra: time.Duration(len(body)>>15) * time.Second,
	}
	if repeatable {
		call.safety = safe
	}
	_, err := c.do(ctx, call, &out)
	return out, err
}

// Release gives a lease back unfinished; the attempt is refunded.
func (c *Client) Release(ctx context.Context, taskID string, r bloom.ReleaseSpec) (bloom.Task, error) {
	task, _, err := post[bloom.Task](ctx, c, "/llm-tasks/"+seg(taskID)+"/release", r, safe)
	return task, err
}

// AppendEvents adds a worker's events to a task's stream. Events whose Seq the
// server knows for this lease are ignored, so a repeat harms nothing.
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

// Leases reads one page, newest first, and where the next begins.
func (c *Client) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	return list[bloom.Lease](ctx, c, newQuery(q.Page).with("status", string(q.Status)).on("/leases"))
}

// AllLeases walks every page from q's on.
func (c *Client) AllLeases(ctx context.Context, q bloom.LeaseQuery) iter.Seq2[bloom.Lease, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Lease, bloom.Cursor, error) {
		q.Page = p
		return c.Leases(ctx, q)
	})
}
