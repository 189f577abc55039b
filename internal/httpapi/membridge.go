package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
)

// MembridgeProxy sends requests to membridge, with the server's own key.
type MembridgeProxy interface {
	// Do sends body (nil: none) to path, which is already escaped. It returns membridge's
	// status, if below 500, and its JSON in the format of such an answer; or 502 with
	// the job_id and detail of a job that an agent did not execute. Without an answer it
	// returns a *bloom.Error.
	Do(ctx context.Context, method, path string, body json.RawMessage) (status int, answer json.RawMessage, err error)
}

// unanswered reports whether the request was sent and may have been executed.
func unanswered(err error) bool {
	var e *bloom.Error
	var op *net.OpError
	if !errors.As(err, &e) || e.Kind != bloom.KindUpstream || errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	return e.Code == bloom.CodeMembridgeFailed || e.Code == bloom.CodeMembridgeDown && e.Cause != nil
}

// ask forwards a request. Membridge's 401 and 403 concern the server's own key, not
// the caller's, and are reported as such.
func (s *Server) ask(ctx context.Context, method, path string, body json.RawMessage) (*reply[json.RawMessage], error) {
	if s.proxy == nil {
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeDown, Message: dispatch.NoMembridge}
	}
	status, answer, err := s.proxy.Do(ctx, method, path, body)
	var ours *bloom.Error
	switch {
	case errors.As(err, &ours):
		return nil, err
	case err != nil:
		return nil, membridgeDown(err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeForbidden,
			Message: "Membridge refuses the server's admin key; save the right one in the settings"}
	case status == http.StatusBadGateway:
		return nil, passedOn(status, answer)
	case status >= 500:
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeFailed, Message: "Membridge failed; its own log says why"}
	case status < 200 || status > 299:
		return nil, passedOn(status, answer)
	case !json.Valid(answer):
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeInvalidResponse, Message: "Membridge's answer is invalid"}
	}
	if len(answer) >= largeAnswer { // membridge may take long to answer: nobody waits for memory meanwhile
		if err := s.reserve(ctx, callOf(ctx), int64(len(answer))); err != nil {
			return nil, err
		}
	}
	return &reply[json.RawMessage]{status, answer}, nil
}

// passedOn returns membridge's error as a Failure with its status, its sentence and
// its detail. Another implementation may refuse a body as FastAPI does, with 422 and
// a list of errors.
func passedOn(status int, answer json.RawMessage) *Failure {
	f := &Failure{status: status, Code: passedCode(status), Message: "Membridge refused the request"}
	if status == http.StatusTooManyRequests {
		f.retryAfter = time.Second
	}
	var body struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(answer, &body) != nil {
		return f
	}
	f.Detail = body.Detail
	var sentence string
	var wrong []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(body.Detail, &sentence) == nil && sentence != "" {
		f.Message = sentence
	} else if json.Unmarshal(body.Detail, &wrong) == nil && len(wrong) > 0 {
		for _, w := range wrong {
			f.Details = append(f.Details, bloom.FieldError{Field: place(w.Loc), Message: w.Msg})
		}
		f.Message = "Membridge refused the request: " + strings.TrimSpace(f.Details[0].Field+" "+f.Details[0].Message)
	}
	return f
}

// place returns the path of a field from FastAPI's form: ["body", "policy", 0].
func place(loc []any) string {
	if len(loc) > 1 && (loc[0] == "body" || loc[0] == "path" || loc[0] == "query") {
		loc = loc[1:]
	}
	parts := make([]string, len(loc))
	for i, p := range loc {
		parts[i] = fmt.Sprint(p)
	}
	return strings.Join(parts, ".")
}

func passedCode(status int) string {
	switch status {
	case http.StatusNotFound:
		return bloom.CodeNotFound
	case http.StatusConflict:
		return bloom.CodeConflict
	case http.StatusRequestEntityTooLarge:
		return bloom.CodeTooLarge
	case http.StatusTooManyRequests:
		return bloom.CodeRateLimited
	case http.StatusBadGateway:
		return bloom.CodeMembridgeJob
	}
	return bloom.CodeInvalid
}

func membridgeDown(cause error) error {
	return &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeDown, Message: "Membridge does not answer", Cause: cause}
}
