package client

import (
	"cmp"
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

// APIError is an answer of the server that is not a success. It unwraps to the
// *bloom.Error of the runtime's vocabulary.
type APIError struct {
	Status     int           // of HTTP
	RequestID  string        // to find the request in the server's log; may be empty
	RetryAfter time.Duration // what the server asked for; 0 when it did not
	Err        *bloom.Error
}

// Error is the server's sentence, and what was wrong in the fields that it names
// besides.
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

// Unwrap gives the error of the runtime's vocabulary.
func (e *APIError) Unwrap() error { return e.Err }

// Unreachable says that the server could not be reached, that its answer did not
// come whole, or that something else answered in its stead: a proxy, a captive
// portal. Whether the call had its effect is not known.
type Unreachable struct {
	URL string // of the runtime, without the call's path
	// Sent tells that the request may have reached the server; false means
	// that no connection was made.
	Sent bool
	// RetryAfter is what an answer that was not the server's asked for; 0 when none did.
	RetryAfter time.Duration
	Err        error
}

// Error says which server could not be reached and why.
func (e *Unreachable) Error() string {
	return "could not reach the server at " + e.URL + ": " + e.Err.Error()
}

// Unwrap gives the transport's error.
func (e *Unreachable) Unwrap() error { return e.Err }

// IsUnreachable reports whether err says that the server could not be reached,
// as opposed to its having said no.
func IsUnreachable(err error) bool {
	var u *Unreachable
	return errors.As(err, &u)
}

// Temporary reports whether the same call may succeed later: the server could
// not be reached, had a failure of its own, or asked for patience.
func Temporary(err error) bool {
	var api *APIError
	if errors.As(err, &api) {
		return api.Status == http.StatusTooManyRequests || api.Status == http.StatusRequestTimeout || api.Status >= 500
	}
	return IsUnreachable(err)
}

// transportError tells the caller's own cancellation from a lost server.
func (c *Client) transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *net.OpError
	dialed := errors.As(err, &op) && op.Op == "dial"
	return &Unreachable{URL: c.base, Sent: !dialed, Err: withoutURL(err)}
}

// withoutURL drops what *url.Error repeats: method and address of the call.
func withoutURL(err error) error {
	var op interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) && errors.As(err, &op) {
		return errors.New("no answer in time")
	}
	if inner := errors.Unwrap(err); inner != nil && strings.HasSuffix(err.Error(), inner.Error()) {
		return inner
	}
	return err
}

// maxErrorBody bounds what is read of an answer that is not a success.
const maxErrorBody = 64 << 10

// apiError reads the answer's error. An answer without our error's shape is not
// the server's; its text is not shown.
func (c *Client) apiError(ctx context.Context, resp *http.Response) error {
	var body struct {
		Error     string             `json:"error"`
		Code      string             `json:"code"`
		Details   []bloom.FieldError `json:"details"`
		RequestID string             `json:"request_id"`
		Service   string             `json:"service"` // of a health report
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	known := err == nil && json.Unmarshal(raw, &body) == nil
	if known && body.Service == serviceName && resp.StatusCode == http.StatusServiceUnavailable {
		body.Error, body.Code = "The server cannot reach its database", bloom.CodeUnavailable
		body.RequestID = cmp.Or(resp.Header.Get("X-Request-Id"), "none")
	}
	if !known || !ourRefusal(body.Error, body.Code, body.RequestID) {
		return c.foreign(resp, raw)
	}
	return &APIError{
		Status: resp.StatusCode, RequestID: body.RequestID, RetryAfter: retryAfter(resp.Header),
		Err: &bloom.Error{Kind: kindOf(resp.StatusCode), Code: body.Code, Message: body.Error, Details: body.Details},
	}
}

// kindOf is the way back from a status to the vocabulary.
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

// retryAfter reads the seconds form, the only one the runtime sends.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
