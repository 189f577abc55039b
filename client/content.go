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

// ErrCorrupt says that an artifact's bytes are not those its row describes.
var ErrCorrupt = errors.New("the artifact's content differs from its recorded size or SHA-256")

// ArtifactContent streams an artifact's content from wherever it lies, with the
// artifact's row. The last Read fails with ErrCorrupt instead of io.EOF when
// size or SHA-256 are not the recorded ones, so whoever read to io.EOF has the
// very bytes. The caller closes it. The stream lasts as long as ctx.
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

// ArtifactBytes reads an artifact's content whole and verified.
func (c *Client) ArtifactBytes(ctx context.Context, id string) ([]byte, error) {
	r, _, err := c.ArtifactContent(ctx, id)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// verified passes bytes on and judges them at the end.
type verified struct {
	client *Client
	ctx    context.Context // of the call, to tell its end from the server's
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

// File describes a file of a run that becomes an artifact.
type File struct {
	// Path is its place in the worker's folder, relative and with slashes.
	Path string
	// Type is bloom.ArtifactFile when empty.
	Type string
	Tags []string
}

// PutFile uploads a file under an active lease; nothing of it is held in memory. The
// content is read twice: for its digest, then to be sent. The same file again answers
// with the first artifact. bloom.ErrLeaseLost when the lease is no longer active; a
// *bloom.Error of kind KindTooLarge when the server takes no file of this size.
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
		method: http.MethodPut, path: "/llm-tasks/" + seg(taskID) + "/artifacts?" + q.Encode(), content: io.NewSectionReader(content, 0, size),
		contentType: "application/octet-stream", safety: safe, extra: time.Duration(size>>15) * time.Second,
	}
	if size > largeFile {
		up.header = map[string]string{"Expect": "100-continue"}
	}
	_, err = c.do(ctx, up, &a)
	return a, err
}

// largeFile is from how many bytes on the server is asked before content is sent.
const largeFile = 256 << 10

// MoveArtifacts takes the content of all artifacts to the object storage; needs an
// admin's key. each hears of the progress and may be nil. It may be repeated at any time.
func (c *Client) MoveArtifacts(ctx context.Context, each func(bloom.MoveReport)) (did bloom.MoveReport, err error) {
	err = c.contentLines(ctx, "/artifacts/move", func(l bloom.ContentLine) {
		if l.Moved != nil {
			if did = *l.Moved; each != nil {
				each(did)
			}
		}
	})
	return did, err
}

// VerifyArtifacts has the server read the content of all artifacts and compare it with
// what was recorded; needs an admin's key. each hears of the progress, and of every
// defect as it is found; it may be nil. Defects are no error: see VerifyReport.Defects.
func (c *Client) VerifyArtifacts(ctx context.Context, each func(bloom.VerifyReport, *bloom.ContentDefect)) (did bloom.VerifyReport, err error) {
	err = c.contentLines(ctx, "/artifacts/verify", func(l bloom.ContentLine) {
		if l.Verified != nil {
			if did = *l.Verified; each != nil {
				each(did, l.Defect)
			}
		}
	})
	return did, err
}

// contentLines reads lines until the last one.
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
