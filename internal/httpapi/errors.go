package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// Failure is the body of every error response.
type Failure struct {
	Message   string             `json:"error" doc:"One sentence for people"`
	Code      string             `json:"code" doc:"Stable; for programs"`
	Details   []bloom.FieldError `json:"details,omitempty" nullable:"false"`
	Decided   *bloom.Approval    `json:"decided,omitempty" doc:"The request as it was decided first, if a second decision was refused; without input and answers"`
	RequestID string             `json:"request_id"`
	// Detail is membridge's detail in errors that the proxy passes on.
	Detail json.RawMessage `json:"detail,omitempty" doc:"Membridge's own detail, in errors that the proxy passes on"`

	status     int
	retryAfter time.Duration
}

// Error implements error, so that handlers can return a Failure.
func (f *Failure) Error() string { return f.Message }

// GetStatus returns the HTTP status, for huma.
func (f *Failure) GetStatus() int { return f.status }

// GetHeaders returns the additional headers, for huma.
func (f *Failure) GetHeaders() http.Header {
	if f.retryAfter <= 0 {
		return nil
	}
	return http.Header{"Retry-After": {guard.Seconds(f.retryAfter)}}
}

// statuses maps kinds of errors to HTTP statuses. It is the only place that does.
var statuses = map[bloom.Kind]int{
	bloom.KindInternal:     http.StatusInternalServerError,
	bloom.KindInvalid:      http.StatusBadRequest,
	bloom.KindUnauthorized: http.StatusUnauthorized,
	bloom.KindForbidden:    http.StatusForbidden,
	bloom.KindNotFound:     http.StatusNotFound,
	bloom.KindConflict:     http.StatusConflict,
	bloom.KindTooLarge:     http.StatusRequestEntityTooLarge,
	bloom.KindRateLimited:  http.StatusTooManyRequests,
	bloom.KindUnavailable:  http.StatusServiceUnavailable,
	bloom.KindUpstream:     http.StatusBadGateway,
}

// Codes that only this adapter has; the others are in package bloom.
const (
	CodeMethod    = "method_not_allowed"     // the address exists, but not for this method; the header Allow lists those that it supports
	CodeMediaType = "unsupported_media_type" // the body is not JSON; send Content-Type: application/json
)

var errUnsupportedMedia = &bloom.Error{Kind: bloom.KindInvalid, Code: CodeMediaType,
	Message: "The body must be JSON: send Content-Type: application/json"}

// failure turns an error into a response. It logs internal errors once, with their
// cause; the caller gets a safe sentence.
func (s *Server) failure(ctx context.Context, id string, err error) *Failure {
	if f := (*Failure)(nil); errors.As(err, &f) {
		f.RequestID = id
		return f
	}
	var e *bloom.Error
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &e) {
		err = e // the caller's key was revoked in the meantime
	}
	if !errors.As(err, &e) {
		e = foreign(err)
	}
	f := &Failure{Message: e.Message, Code: e.Code, Details: e.Details, Decided: e.Decided, RequestID: id, status: statuses[e.Kind]}
	if e.Code == bloom.CodeQueueFull {
		s.limits.Refused("queue")
	}
	switch {
	case errors.Is(e, errUnsupportedMedia):
		f.status = http.StatusUnsupportedMediaType
	case e.Kind == bloom.KindUnavailable || e.Kind == bloom.KindRateLimited:
		f.retryAfter = time.Second
	}
	if e.Kind == bloom.KindInternal || (e.Cause != nil && f.status >= 500 && ctx.Err() == nil) {
		s.log.LogAttrs(ctx, slog.LevelError, "a request failed",
			slog.String("request_id", id), slog.String("code", e.Code), slog.String("error", storable.Cut(err.Error(), loggedError)))
	}
	return f
}

// loggedError is how much of an error is logged, in bytes: it may have a whole statement in it.
const loggedError = 4 << 10

// foreign converts an error that is no *bloom.Error. A call that its caller cancelled
// is not the server's fault.
func foreign(err error) *bloom.Error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable,
			Message: "The request was cancelled before it completed; it is safe to retry"}
	}
	return bloom.Internal(err)
}

// write sends f without huma.
func (f *Failure) write(w http.ResponseWriter) {
	h := w.Header()
	h.Del("Content-Length")
	for name, values := range f.GetHeaders() {
		h[name] = values
	}
	if f.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="bloom-runtime"`)
	}
	writeJSON(w, f.status, f)
}

// writeJSON writes a JSON response without huma.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // fails only if the caller is gone
}

// humaFailure converts errors of huma itself to our format. It is this API's
// transformer, because huma's error constructor is global.
func humaFailure(ctx huma.Context, status string, v any) (any, error) {
	if _, ours := v.(*Failure); ours {
		return v, nil
	}
	e, foreign := v.(huma.StatusError)
	if !foreign {
		return v, nil
	}
	ctx.SetHeader("Content-Type", "application/json")
	f := &Failure{Message: "The request is invalid", Code: bloom.CodeInvalid, RequestID: callOf(ctx.Context()).id, status: e.GetStatus()}
	if e.GetStatus() >= 500 {
		f.Message, f.Code = bloom.Internal(nil).Message, bloom.CodeInternal
	}
	return f, nil
}
