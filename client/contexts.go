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

// Contexts reads one page, the context used last first, and where the next begins.
func (c *Client) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	return list[bloom.Context](ctx, c, newQuery(q.Page).on("/contexts"))
}

// AllContexts walks every page from q's on.
func (c *Client) AllContexts(ctx context.Context, q bloom.ContextQuery) iter.Seq2[bloom.Context, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Context, bloom.Cursor, error) {
		q.Page = p
		return c.Contexts(ctx, q)
	})
}

// Context reads one context. An unknown one is a not_found error.
func (c *Client) Context(ctx context.Context, id string) (bloom.Context, error) {
	return get[bloom.Context](ctx, c, "/contexts/"+seg(id))
}

// ForgetContext drops a context everywhere: its transcript on the server at once,
// workers' sessions with their next claims. A conflict while a task of it has not ended.
func (c *Client) ForgetContext(ctx context.Context, id string) error {
	_, err := c.do(ctx, &call{method: http.MethodDelete, path: "/contexts/" + seg(id), safety: safe}, nil)
	return err
}

func underLease(taskID, leaseID, what string) string {
	return "/llm-tasks/" + seg(taskID) + what + "?lease_id=" + url.QueryEscape(leaseID)
}

// TranscriptState asks what the server has of the context of a task that is held.
func (c *Client) TranscriptState(ctx context.Context, taskID, leaseID string) (bloom.TranscriptState, error) {
	return get[bloom.TranscriptState](ctx, c, underLease(taskID, leaseID, "/transcript"))
}

// Transcript streams the transcript of a held task's context, in zstd frames. What the
// server cannot read to the end ends in an error. The caller closes it.
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

// WorkspaceState asks what the server has of the working folder of the context of a task
// that is held.
func (c *Client) WorkspaceState(ctx context.Context, taskID, leaseID string) (bloom.WorkspaceState, error) {
	return get[bloom.WorkspaceState](ctx, c, underLease(taskID, leaseID, "/workspace"))
}

// Workspace streams the snapshot of that folder: a tar archive in zstd frames. What the
// server cannot read to the end ends in an error. The caller closes it.
func (c *Client) Workspace(ctx context.Context, taskID, leaseID string) (io.ReadCloser, error) {
	return c.frames(ctx, taskID, leaseID, "/workspace/content")
}

// PutWorkspacePart uploads a part of a snapshot as PutTranscriptPart does.
func (c *Client) PutWorkspacePart(ctx context.Context, taskID, leaseID string, frame []byte) (bloom.TranscriptPart, error) {
	return c.putPart(ctx, taskID, leaseID, "/workspace", frame)
}

// PutTranscriptPart uploads a part of at most bloom.MaxTranscriptPart bytes, one zstd
// frame. It counts once a completion under the lease names it.
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

// Earlier are the last completed tasks of a held task's context in short, the oldest
// first.
func (c *Client) Earlier(ctx context.Context, taskID, leaseID string) ([]bloom.Exchange, error) {
	return get[[]bloom.Exchange](ctx, c, underLease(taskID, leaseID, "/earlier"))
}
