package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/bloom-runtime/bloom"
)

// ErrCorrupt is returned when an artifact's content does not match its recorded size or SHA-256.
var ErrCorrupt = errors.New("the artifact's content differs from its recorded size or SHA-256")

// ArtifactContent returns an artifact and streams its content from wherever it is stored. The last
// Read returns ErrCorrupt instead of io.EOF when size or SHA-256 do not match, so a reader that got
// io.EOF has the exact content. The caller closes it. The stream ends with ctx.
func (c *Client) ArtifactContent(ctx context.Context, id string) (io.ReadCloser, bloom.Artifact, error) {
	row, err := c.Artifact(ctx, id)
	if err != nil {
		return nil, row, err
	}
	body, err := c.stream(ctx, &call{ //nolint:bodyclose // the caller gets it, and closes it
		method: http.MethodGet, path: "/artifacts/" + seg(id) + "/content", accept: "*/*", safety: safe,
	})
	if err != nil {
		return nil, row, err
	}
	return &verified{client: c, ctx: ctx, body: body.Body, sum: sha256.New(), row: row}, row, nil
}

// ArtifactBytes reads and verifies an artifact's whole content.
func (c *Client) ArtifactBytes(ctx context.Context, id string) ([]byte, error) {
	r, _, err := c.ArtifactContent(ctx, id)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// verified passes the content through and verifies it at the end.
type verified struct {
	client *Client
	ctx    context.Context // of the call, to distinguish its cancellation from a server failure
	body   io.ReadCloser
	sum    hash.Hash
	size   int64
	row    bloom.Artifact
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.body.Read(p)
	v.sum.Write(p[:n])
	v.size += int64(n)
	switch {
	case v.size > v.row.Size:
		return n, fmt.Errorf("%w: more than %d bytes", ErrCorrupt, v.row.Size)
	case errors.Is(err, io.EOF):
		if v.size != v.row.Size || hex.EncodeToString(v.sum.Sum(nil)) != v.row.SHA256 {
			return n, fmt.Errorf("%w: %d bytes of %d", ErrCorrupt, v.size, v.row.Size)
		}
	case err != nil:
		return n, v.client.transportError(v.ctx, err)
	}
	return n, err
}

func (v *verified) Close() error { return v.body.Close() }

// Attachment streams a file that a task was posted with. A worker names its lease; it is empty for
// other callers. The caller closes the stream, and compares it with the task's Attachments.
func (c *Client) Attachment(ctx context.Context, taskID, name, leaseID string) (io.ReadCloser, error) {
	path := "/llm-tasks/" + seg(taskID) + "/attachments/" + seg(name)
	if leaseID != "" {
		path += "?lease_id=" + url.QueryEscape(leaseID)
	}
	res, err := c.stream(ctx, &call{method: http.MethodGet, path: path, accept: "*/*", safety: safe})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// File describes a file to upload as an artifact.
type File struct {
	// Path is relative to the worker's folder, with slashes.
	Path string
	// Type defaults to bloom.ArtifactFile.
	Type string
	Tags []string
}

// PutFile uploads a file under an active lease without holding it in memory. It reads the content
// twice: for its digest, then to send it. The same file again returns the first artifact. Errors:
// bloom.ErrLeaseLost when the lease is no longer active; a *bloom.Error of kind KindTooLarge when
// the server does not accept files of this size.
func (c *Client) PutFile(ctx context.Context, taskID, leaseID string, f File, content io.ReaderAt, size int64) (a bloom.Artifact, err error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(content, 0, size)); err != nil {
		return a, err
	}
	q := url.Values{"lease_id": {leaseID}, "path": {f.Path}, "sha256": {hex.EncodeToString(sum.Sum(nil))}, "tag": f.Tags}
	if f.Type != "" {
		q.Set("type", f.Type)
	}
	up := &call{
		method: http.MethodPut, path: "/llm-tasks/" + seg(taskID) + "/artifacts?" + q.Encode(), content: func() io.Reader { return io.NewSectionReader(content, 0, size) }, size: size,
		contentType: "application/octet-stream", safety: safe, extra: time.Duration(size>>15) * time.Second,
	}
	if size > largeFile {
		up.header = map[string]string{"Expect": "100-continue"}
	}
	_, err = c.do(ctx, up, &a)
	return a, err
}

// largeFile is the size, in bytes, from which the server is asked before content is sent.
const largeFile = 256 << 10

// MoveArtifacts moves the content of all artifacts to the object storage; it requires an admin key.
// each, when not nil, is called with the progress. It may be repeated at any time.
func (c *Client) MoveArtifacts(ctx context.Context, each func(bloom.MoveReport)) (total bloom.MoveReport, err error) {
	err = c.contentLines(ctx, "/artifacts/move", func(l bloom.ContentLine) {
		if l.Moved != nil {
			if total = *l.Moved; each != nil {
				each(total)
			}
		}
	})
	return total, err
}

// VerifyArtifacts makes the server read the content of all artifacts and compare it with its
// record; it requires an admin key. each, when not nil, is called with the progress and with every
// defect as it is found. Defects are not an error: see VerifyReport.Defects.
func (c *Client) VerifyArtifacts(ctx context.Context, each func(bloom.VerifyReport, *bloom.ContentDefect)) (total bloom.VerifyReport, err error) {
	err = c.contentLines(ctx, "/artifacts/verify", func(l bloom.ContentLine) {
		if l.Verified != nil {
			if total = *l.Verified; each != nil {
				each(total, l.Defect)
			}
		}
	})
	return total, err
}

// contentLines calls each with every line of the response.
func (c *Client) contentLines(ctx context.Context, path string, each func(bloom.ContentLine)) error {
	resp, err := c.stream(ctx, &call{method: http.MethodPost, path: path, accept: typeLines, safety: safe})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var l bloom.ContentLine
		if err := lines.Decode(&l); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return c.transportError(ctx, err)
		}
		switch each(l); {
		case l.Error != "":
			return errors.New(l.Error)
		case l.Done:
			return nil
		}
	}
}
