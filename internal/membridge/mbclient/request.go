package mbclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// request is one call.
type request struct {
	method, path string
	body         []byte
	idempotent   bool          // idempotent: may be retried
	extra        time.Duration // added to the timeout, for long polls
	// read decodes the body of a success; its error means that something other than membridge
	// answered. Nil: the body is ignored.
	read func(answer []byte) error
	// certain marks a call that membridge refuses only for its key: any other 4xx means that
	// something other than membridge answered.
	certain bool
	next    *string // next, if not nil, is set to the path of the next page, "" after the last one
}

// Do forwards a request with the key added and returns membridge's status and body. Its error is a
// *bloom.Error of kind Upstream, returned with the status and body if there are any: membridge is
// unreachable (CodeMembridgeDown), answers 5xx (CodeMembridgeFailed), redirects
// (CodeMembridgeElsewhere), sends an invalid response (CodeMembridgeInvalidResponse), or refuses the key
// with 401 or 403 (CodeMembridgeForbidden). Any other 4xx is for the caller to forward; it is JSON
// with a detail. So is a 502 that names in job_id the job that an agent failed to carry out. Only
// idempotent methods are retried.
func (c *Client) Do(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	return c.do(ctx, request{method: method, path: path, body: body, idempotent: idempotentMethod(method), read: shapeOf(method, path)})
}

func idempotentMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// do makes the request and retries it when it is idempotent, after 500 ms × 2^n plus up to 30 %.
func (c *Client) do(ctx context.Context, r request) (status int, answer []byte, err error) {
	t := c.now()
	if t.url == "" {
		return 0, nil, down("No membridge is configured", nil)
	}
	policy := retry.Policy{First: c.opt.Backoff, Max: c.opt.Backoff << 10, Jitter: 0.3, Tries: 1}
	if r.idempotent {
		policy.Tries += uint(c.opt.Retries)
	}
	answer, err = retry.Do(ctx, policy, func() ([]byte, error) {
		var answer []byte
		var err error
		status, answer, err = c.try(ctx, t, r)
		if status > 0 && status < 500 {
			err = retry.Permanent(err)
		}
		return answer, err
	})
	return status, answer, err
}

// try makes one attempt and updates the state.
func (c *Client) try(ctx context.Context, t target, r request) (int, []byte, error) {
	bounded, cancel := context.WithTimeout(ctx, c.opt.Timeout+r.extra)
	defer cancel()
	status, answer, err := c.send(bounded, t, r)
	if err != nil && ctx.Err() != nil {
		// The caller cancelled; that says nothing about membridge.
		return 0, nil, down("The request was cancelled", ctx.Err())
	}
	if err = c.checkStatus(status, answer, err); err == nil {
		err = r.checkBody(status, answer)
	}
	var e *bloom.Error
	if errors.As(err, &e) {
		c.failed(t, e.Message)
	} else {
		c.succeeded(t)
	}
	return status, answer, err
}

// checkBody returns an error for a response that cannot be membridge's.
func (r request) checkBody(status int, answer []byte) error {
	var bad error
	switch {
	case status >= 400 && r.certain:
		return upstream(bloom.CodeMembridgeInvalidResponse, fmt.Sprintf("Unexpected status %d; the server at this address may not be membridge", status), nil)
	case status >= 400:
		bad = refusal(answer)
	case r.read != nil:
		bad = r.read(answer)
	}
	if bad != nil {
		return upstream(bloom.CodeMembridgeInvalidResponse, "Invalid response; the server at this address may not be membridge", bad)
	}
	return nil
}

func (c *Client) send(ctx context.Context, t target, r request) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, t.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if len(r.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if t.key != "" {
		req.Header.Set("X-MEMBRIDGE-ADMIN", t.key)
	}
	if c.opt.AgentKey != "" {
		req.Header.Set("X-MEMBRIDGE-AGENT", c.opt.AgentKey)
	}
	if c.opt.Token != "" {
		req.Header.Set("X-MEMBRIDGE-TOKEN", c.opt.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	if r.next != nil {
		link, rel, _ := strings.Cut(res.Header.Get("Link"), ">")
		if *r.next = ""; strings.HasPrefix(link, "</") && strings.Contains(rel, "next") {
			*r.next = link[1:]
		}
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, c.opt.MaxResponse+1))
	if err != nil {
		return 0, nil, err
	}
	if int64(len(answer)) > c.opt.MaxResponse {
		return 0, nil, errTooLong
	}
	return res.StatusCode, answer, nil
}

var errTooLong = errors.New("membridge's response is too long")

// checkStatus classifies an outcome; nil means that membridge responded as expected.
func (c *Client) checkStatus(status int, answer []byte, err error) error {
	switch {
	case errors.Is(err, errTooLong):
		return upstream(bloom.CodeMembridgeInvalidResponse, "Membridge's response is too long", err)
	case err != nil:
		return down(reason(err, c.opt.Timeout), err)
	case status >= 500 && !jobFailed(status, answer):
		return upstream(bloom.CodeMembridgeFailed, fmt.Sprintf("Membridge answered %d", status), nil)
	case (status == http.StatusUnauthorized || status == http.StatusForbidden) && refusal(answer) == nil:
		return upstream(bloom.CodeMembridgeForbidden, "Membridge refused the key; check "+c.keyName(), nil)
	case status >= 300 && status < 400:
		return upstream(bloom.CodeMembridgeElsewhere, "Membridge answered with a redirect, which is not followed; configure its final address", nil)
	}
	return nil
}

// reason returns a message that is safe to show: without address and inner errors.
func reason(err error, limit time.Duration) string {
	var timeout interface{ Timeout() bool }
	var dns interface{ Temporary() bool }
	switch {
	case errors.Is(err, ErrAddressRefused):
		return "Membridge's address is not allowed by the address policy"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Membridge is unreachable: the connection was refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("Membridge did not answer within %v", limit)
	case errors.As(err, &dns):
		return "Membridge is unreachable: the connection failed"
	}
	return "Membridge is unreachable"
}

func down(message string, cause error) error {
	return upstream(bloom.CodeMembridgeDown, message, cause)
}

func upstream(code, message string, cause error) error {
	return &bloom.Error{Kind: bloom.KindUpstream, Code: code, Message: message, Cause: cause}
}

// keyName returns the name of the setting with the key in use.
func (c *Client) keyName() string {
	switch {
	case c.opt.KeyName != "":
		return c.opt.KeyName
	case c.opt.AgentKey != "":
		return "MEMBRIDGE_AGENT_KEY"
	}
	return "MEMBRIDGE_ADMIN_KEY"
}

// fetch makes a call whose response is JSON of a known form. It returns a 4xx as a *StatusError.
func (c *Client) fetch(ctx context.Context, r request, into any) error {
	if into != nil {
		shape := r.read
		r.read = func(answer []byte) error {
			if shape != nil {
				if err := shape(answer); err != nil {
					return err
				}
			}
			return json.Unmarshal(answer, into)
		}
	}
	status, answer, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	if status >= 400 {
		return &StatusError{Status: status, Detail: detailOf(answer)}
	}
	return nil
}

// StatusError is a 4xx response: membridge refused the request.
type StatusError struct {
	Status int
	Detail string
}

// Error returns the status and membridge's detail.
func (e *StatusError) Error() string {
	return fmt.Sprintf("membridge answered %d: %s", e.Status, e.Detail)
}

// IsMissing reports whether membridge answered 404.
func IsMissing(err error) bool {
	var e *StatusError
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

func detailOf(answer []byte) string {
	var body struct {
		Detail string `json:"detail"`
	}
	_ = json.Unmarshal(answer, &body) // without a detail the status has to do
	return body.Detail
}

// escape encodes a name as one path segment.
func escape(name string) string { return url.PathEscape(name) }
