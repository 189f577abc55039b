package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
)

// errNoWorker is declared here so that retry.go need not import the vocabulary.
var errNoWorker = bloom.ErrNoWorker

// maxResponse bounds a JSON response, in bytes.
const maxResponse = 512 << 20

// call describes one call of the API, independent of its retries.
type call struct {
	method      string
	path        string // after /api/runtime, escaped, with the query
	body        []byte
	content     func() io.Reader // instead of body: streamed, from the start for each try
	size        int64            // of content
	contentType string
	accept      string
	header      map[string]string
	safety      safety
	extra       time.Duration // on top of the client's timeout
}

func (c *call) reader() io.Reader {
	switch {
	case c.content != nil:
		return c.content()
	case c.body == nil:
		return nil
	}
	return bytes.NewReader(c.body)
}

// do makes the call, decodes a success into out and returns its status and header.
// repeated reports that an earlier try may have had its effect.
func (c *Client) do(ctx context.Context, call *call, out any) (meta answer, err error) {
	for n := 0; ; n++ {
		var status int
		var header http.Header
		status, header, err = c.once(ctx, call, out)
		meta.status, meta.header = status, header
		if err == nil || n+1 >= c.retry.Tries || !call.safety.mayRetry(err) {
			return meta, err
		}
		meta.repeated = meta.repeated || !unsafe.mayRetry(err)
		if waited := c.beforeRetry(ctx, n, err); waited != nil {
			return meta, fmt.Errorf("%w (last try: %w)", waited, err)
		}
	}
}

type answer struct {
	status   int
	header   http.Header
	repeated bool
}

func (c *Client) once(ctx context.Context, call *call, out any) (int, http.Header, error) {
	tryCtx, cancel := context.WithTimeout(ctx, c.timeout+call.extra)
	defer cancel()
	req, err := c.request(tryCtx, call)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, c.transportError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode, resp.Header, c.apiError(ctx, resp)
	}
	if err := c.decode(ctx, resp, out); err != nil {
		return resp.StatusCode, resp.Header, err
	}
	// Drain the body so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
	return resp.StatusCode, resp.Header, nil
}

// decode reads a JSON response. A truncated one, or one that did not come from the runtime, is a
// transport failure.
func (c *Client) decode(ctx context.Context, resp *http.Response, out any) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return c.transportError(ctx, err)
	}
	if len(raw) > maxResponse {
		return fmt.Errorf("the server's response is longer than %d MiB", maxResponse>>20)
	}
	if json.Unmarshal(raw, out) != nil || !isOurs(raw, out) {
		return c.foreign(resp, raw)
	}
	return nil
}

// encode encodes v as JSON without escaping <, > and &, which would inflate code.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// get reads one resource.
func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out T
	_, err := c.do(ctx, &call{method: http.MethodGet, path: path, safety: safe}, &out)
	return out, err
}

// post sends body and decodes the response.
func post[T any](ctx context.Context, c *Client, path string, body any, s safety) (T, answer, error) {
	var out T
	raw, err := encode(body)
	if err != nil {
		return out, answer{}, err
	}
	meta, err := c.do(ctx, &call{method: http.MethodPost, path: path, body: raw, safety: s}, &out)
	return out, meta, err
}

// remove removes something. A repeated call that finds nothing has succeeded: an earlier try, whose
// response was lost or which failed after its commit, may have removed it. If it never existed, the
// caller has what it wanted, too.
func (c *Client) remove(ctx context.Context, path string) error {
	meta, err := c.do(ctx, &call{method: http.MethodDelete, path: path, safety: safe}, &removed{})
	if err != nil && meta.repeated && bloom.KindOf(err) == bloom.KindNotFound {
		return nil
	}
	return err
}

// query collects non-empty parameters.
type query struct{ url.Values }

func newQuery(page bloom.Page) query {
	q := query{url.Values{}}
	if page.Limit > 0 {
		q.Set("limit", strconv.Itoa(page.Limit))
	}
	return q.with("cursor", page.Cursor.String())
}

func (q query) with(name, value string) query {
	if value != "" {
		q.Set(name, value)
	}
	return q
}

func (q query) on(path string) string {
	if len(q.Values) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

func seg(s string) string { return url.PathEscape(s) }
