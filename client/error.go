package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// APIError is a response of the server that is not a success. It unwraps to a *bloom.Error.
type APIError struct {
	Status     int           // of HTTP
	RequestID  string        // identifies the request in the server's log; may be empty
	RetryAfter time.Duration // from the response; 0 when absent
	Err        *bloom.Error
}

// Error returns the server's message and those of its details that add to it.
func (e *APIError) Error() string {
	var more []string
	for _, d := range e.Err.Details {
		if !strings.Contains(e.Err.Message, d.Message) {
			more = append(more, d.Field+": "+d.Message)
		}
	}
	if len(more) == 0 {
		return e.Err.Message
	}
	return e.Err.Message + " (" + strings.Join(more, "; ") + ")"
}

// Unwrap returns the *bloom.Error.
func (e *APIError) Unwrap() error { return e.Err }

// UnreachableError is returned when the server could not be reached, when its response was
// incomplete, or when something else answered in its place, such as a proxy or a captive portal.
// Whether the call had its effect is unknown.
type UnreachableError struct {
	URL string // of the runtime, without the call's path
	// Sent reports that the request may have reached the server; false means that no connection was
	// made.
	Sent bool
	// RetryAfter is from the response, which was not the server's; 0 when absent.
	RetryAfter time.Duration
	Err        error
}

// Error names the server and the reason.
func (e *UnreachableError) Error() string {
	return "could not reach the server at " + e.URL + ": " + e.Err.Error()
}

// Unwrap returns the transport's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// IsUnreachable reports whether err is an UnreachableError, as opposed to a refusal by the server.
func IsUnreachable(err error) bool {
	var u *UnreachableError
	return errors.As(err, &u)
}

// Temporary reports whether the same call may succeed later: the server could not be reached, had
// an internal failure, or is rate limiting.
func Temporary(err error) bool {
	var api *APIError
	if errors.As(err, &api) {
		return api.Status == http.StatusTooManyRequests || api.Status == http.StatusRequestTimeout || api.Status >= 500
	}
	return IsUnreachable(err)
}

// transportError distinguishes the caller's cancellation from a lost server.
func (c *Client) transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *net.OpError
	dialed := errors.As(err, &op) && op.Op == "dial"
	return &UnreachableError{URL: c.base, Sent: !dialed, Err: withoutURL(err)}
}

// withoutURL removes the method and URL that *url.Error repeats.
func withoutURL(err error) error {
	var op interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) && errors.As(err, &op) {
		return errors.New("timed out waiting for the response")
	}
	if inner := errors.Unwrap(err); inner != nil && strings.HasSuffix(err.Error(), inner.Error()) {
		return inner
	}
	return err
}

// maxErrorBody bounds the body that is read of an error response, in bytes.
const maxErrorBody = 64 << 10

// apiError decodes an error response. A response that does not have the runtime's form came from
// something else; its text is not shown.
func (c *Client) apiError(ctx context.Context, resp *http.Response) error {
	var body struct {
		Error     string             `json:"error"`
		Code      string             `json:"code"`
		Details   []bloom.FieldError `json:"details"`
		Decided   *bloom.Approval    `json:"decided"`
		RequestID string             `json:"request_id"`
		Service   string             `json:"service"` // of a health report
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	known := err == nil && json.Unmarshal(raw, &body) == nil
	switch {
	case known && body.Service == serviceName && resp.StatusCode == http.StatusServiceUnavailable:
		body.Error, body.Code = "The server cannot reach its database", bloom.CodeUnavailable
		body.RequestID = resp.Header.Get("X-Request-Id")
	case !known || !ourRefusal(body.Error, body.Code, body.RequestID):
		return c.foreign(resp, raw)
	}
	return &APIError{
		Status: resp.StatusCode, RequestID: body.RequestID, RetryAfter: retryAfter(resp.Header),
		Err: &bloom.Error{Kind: kindOf(resp.StatusCode), Code: body.Code, Message: body.Error, Details: body.Details, Decided: body.Decided},
	}
}

// kindOf maps a status to a kind of error.
func kindOf(status int) bloom.Kind {
	switch status {
	case http.StatusUnauthorized:
		return bloom.KindUnauthorized
	case http.StatusForbidden:
		return bloom.KindForbidden
	case http.StatusNotFound, http.StatusGone:
		return bloom.KindNotFound
	case http.StatusConflict:
		return bloom.KindConflict
	case http.StatusRequestEntityTooLarge:
		return bloom.KindTooLarge
	case http.StatusTooManyRequests:
		return bloom.KindRateLimited
	case http.StatusBadGateway:
		return bloom.KindUpstream
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return bloom.KindUnavailable
	}
	if status >= 400 && status < 500 {
		return bloom.KindInvalid
	}
	return bloom.KindInternal
}

// retryAfter parses the form in seconds, the only one that the runtime sends.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
