package membridge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
)

// Problem is the body of every answer that is not a success. The described
// system is a FastAPI program; this is its shape.
type Problem struct {
	Detail string `json:"detail" doc:"One sentence a person understands"`
	JobID  string `json:"job_id,omitempty" doc:"The sync job that failed, where one was made"`
	status int
}

// Error makes a Problem something a handler can return.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is for huma.
func (p *Problem) GetStatus() int { return p.status }

func problem(status int, detail string) *Problem { return &Problem{Detail: detail, status: status} }

// statuses maps kinds of failure to HTTP.
var statuses = map[bloom.Kind]int{
	bloom.KindInvalid: http.StatusBadRequest, bloom.KindUnauthorized: http.StatusUnauthorized,
	bloom.KindForbidden: http.StatusForbidden, bloom.KindNotFound: http.StatusNotFound,
	bloom.KindConflict: http.StatusConflict, bloom.KindTooLarge: http.StatusRequestEntityTooLarge,
	bloom.KindRateLimited: http.StatusTooManyRequests, bloom.KindUnavailable: http.StatusServiceUnavailable,
	bloom.KindUpstream: http.StatusBadGateway,
}

// refuse turns a failure into its answer. Inner text goes to the log only.
func (s *Server) refuse(ctx context.Context, err error) error {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var e *bloom.Error
	if errors.As(err, &e) {
		if status, ok := statuses[e.Kind]; ok {
			return problem(status, e.Message)
		}
	}
	if ctx.Err() != nil {
		return problem(http.StatusServiceUnavailable, "The request was given up before it was answered")
	}
	s.cfg.Log.ErrorContext(ctx, "membridge: request failed", slog.Any("error", err))
	return problem(http.StatusInternalServerError, bloom.Internal(nil).Message)
}

// reshape gives huma's own errors our shape. It runs as this API's transformer:
// the error constructor is global to the process, which serves the runtime's API
// with another shape too, so it stays untouched. Submitted values, which huma
// would echo, are left out.
func reshape(ctx huma.Context, _ string, v any) (any, error) {
	if _, ours := v.(*Problem); ours {
		return v, nil
	}
	foreign, ok := v.(huma.StatusError)
	if !ok {
		return v, nil
	}
	ctx.SetHeader("Content-Type", "application/json")
	if foreign.GetStatus() >= http.StatusInternalServerError {
		return problem(foreign.GetStatus(), bloom.Internal(nil).Message), nil
	}
	p := problem(foreign.GetStatus(), "The request is wrong")
	var model *huma.ErrorModel
	if errors.As(foreign, &model) {
		p.Detail = sentence(model)
	}
	return p, nil
}

// sentence says what is wrong and where.
func sentence(m *huma.ErrorModel) string {
	var wrong []string
	for _, e := range m.Errors {
		text := e.Message
		switch {
		case e.Location == "body" && strings.HasPrefix(text, "must "):
			text = "the body " + text
		case e.Location != "body" && e.Location != "":
			text = strings.TrimPrefix(strings.TrimPrefix(e.Location, "body."), "query.") + ": " + text
		}
		wrong = append(wrong, text)
	}
	if len(wrong) == 0 {
		return m.Detail
	}
	return strings.Join(wrong, "; ")
}

// write sends the problem outside of huma.
func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(p) // the caller has gone: nobody is left to tell
}
