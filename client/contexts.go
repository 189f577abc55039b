package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Contexts returns one page of contexts, the most recently used first, and the cursor of the next
// page.
func (c *Client) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	return list[bloom.Context](ctx, c, newQuery(q.Page).with("short_id", q.ShortID).with("q", q.Text).with("pinned", map[bool]string{true: "true"}[q.Pinned]).on("/contexts"))
}

// AllContexts iterates over the contexts from q's page on.
func (c *Client) AllContexts(ctx context.Context, q bloom.ContextQuery) iter.Seq2[bloom.Context, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Context, bloom.Cursor, error) {
		q.Page = p
		return c.Contexts(ctx, q)
	})
}

// Context returns one context. An unknown one is a not_found error.
func (c *Client) Context(ctx context.Context, id string) (bloom.Context, error) {
	return get[bloom.Context](ctx, c, "/contexts/"+seg(id))
}

// NameContext sets what people call a context; empty for no name.
func (c *Client) NameContext(ctx context.Context, id, name string) (bloom.Context, error) {
	return c.changeContext(ctx, id, map[string]any{"name": name})
}

// PinContext keeps a context at the top of lists, or does not any more.
func (c *Client) PinContext(ctx context.Context, id string, pinned bool) (bloom.Context, error) {
	return c.changeContext(ctx, id, map[string]any{"pinned": pinned})
}

func (c *Client) changeContext(ctx context.Context, id string, change map[string]any) (out bloom.Context, err error) {
	body, err := encode(change)
	if err != nil {
		return out, err
	}
	_, err = c.do(ctx, &call{method: http.MethodPatch, path: "/contexts/" + seg(id), body: body, safety: safe}, &out)
	return out, err
}

// ForgetContext deletes a context: its transcript on the server immediately, the workers' sessions
// with their next claims. Conflict while one of its tasks is unfinished.
func (c *Client) ForgetContext(ctx context.Context, id string) error {
	return c.remove(ctx, "/contexts/"+seg(id))
}

func underLease(taskID, leaseID, what string) string {
	return "/llm-tasks/" + seg(taskID) + what + "?lease_id=" + url.QueryEscape(leaseID)
}

// TranscriptState returns which transcript the server has for the context of a leased task.
func (c *Client) TranscriptState(ctx context.Context, taskID, leaseID string) (bloom.TranscriptState, error) {
	return get[bloom.TranscriptState](ctx, c, underLease(taskID, leaseID, "/transcript"))
}

// Transcript streams the transcript of a leased task's context as zstd frames. The stream fails
// when the server cannot read all of it. The caller closes it.
func (c *Client) Transcript(ctx context.Context, taskID, leaseID string) (io.ReadCloser, error) {
	return c.frames(ctx, taskID, leaseID, "/transcript/content")
}

func (c *Client) frames(ctx context.Context, taskID, leaseID, what string) (io.ReadCloser, error) {
	res, err := c.stream(ctx, &call{method: http.MethodGet, path: underLease(taskID, leaseID, what), accept: "*/*", safety: safe})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// WorkspaceState returns which snapshot of the working folder the server has for the context of a
// leased task.
func (c *Client) WorkspaceState(ctx context.Context, taskID, leaseID string) (bloom.WorkspaceState, error) {
	return get[bloom.WorkspaceState](ctx, c, underLease(taskID, leaseID, "/workspace"))
}

// Workspace streams that snapshot: a tar archive as zstd frames. The stream fails when the server
// cannot read all of it. The caller closes it.
func (c *Client) Workspace(ctx context.Context, taskID, leaseID string) (io.ReadCloser, error) {
	return c.frames(ctx, taskID, leaseID, "/workspace/content")
}

// PutWorkspacePart uploads a part of a snapshot, like PutTranscriptPart.
func (c *Client) PutWorkspacePart(ctx context.Context, taskID, leaseID string, frame []byte) (bloom.TranscriptPart, error) {
	return c.putPart(ctx, taskID, leaseID, "/workspace", frame)
}

// PutTranscriptPart uploads a part of at most bloom.MaxTranscriptPart bytes, one zstd frame. It
// takes effect with a completion under the same lease that names it.
func (c *Client) PutTranscriptPart(ctx context.Context, taskID, leaseID string, frame []byte) (bloom.TranscriptPart, error) {
	return c.putPart(ctx, taskID, leaseID, "/transcript", frame)
}

func (c *Client) putPart(ctx context.Context, taskID, leaseID, what string, frame []byte) (part bloom.TranscriptPart, err error) {
	sum := sha256.Sum256(frame)
	_, err = c.do(ctx, &call{
		method: http.MethodPut, path: underLease(taskID, leaseID, what) + "&sha256=" + hex.EncodeToString(sum[:]),
		body: frame, contentType: "application/zstd", safety: safe, extra: time.Duration(len(frame)>>15) * time.Second,
	}, &part)
	return part, err
}

// Earlier returns the last completed tasks of a leased task's context, abridged, oldest first.
func (c *Client) Earlier(ctx context.Context, taskID, leaseID string) ([]bloom.Exchange, error) {
	return get[[]bloom.Exchange](ctx, c, underLease(taskID, leaseID, "/earlier"))
}
