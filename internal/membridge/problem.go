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

// Problem is the body of every error response, in the form of FastAPI, which the earlier
// implementation uses.
type Problem struct {
	Detail string `json:"detail" doc:"One sentence for people"`
	JobID  string `json:"job_id,omitempty" doc:"The sync job that failed, if any"`
	status int
}

// Error lets handlers return a Problem as an error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.status }

func problem(status int, detail string) *Problem { return &Problem{Detail: detail, status: status} }

// statuses maps kinds of errors to HTTP statuses.
var statuses = map[bloom.Kind]int{
	bloom.KindInvalid: http.StatusBadRequest, bloom.KindUnauthorized: http.StatusUnauthorized,
	bloom.KindForbidden: http.StatusForbidden, bloom.KindNotFound: http.StatusNotFound,
	bloom.KindConflict: http.StatusConflict, bloom.KindTooLarge: http.StatusRequestEntityTooLarge,
	bloom.KindRateLimited: http.StatusTooManyRequests, bloom.KindUnavailable: http.StatusServiceUnavailable,
	bloom.KindUpstream: http.StatusBadGateway,
}

// refuse converts an error to its response. Inner errors go to the log only.
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
		return problem(http.StatusServiceUnavailable, "The request was cancelled before it was answered")
	}
	s.cfg.Log.ErrorContext(ctx, "membridge: request failed", slog.Any("error", err))
	return problem(http.StatusInternalServerError, bloom.Internal(nil).Message)
}

// reshape gives huma's own errors the API's form. It runs as this API's transformer, because the
// error constructor is global to the process, which also serves the runtime's API. Submitted
// values, which huma would echo, are left out.
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
	p := problem(foreign.GetStatus(), "Invalid request")
	var model *huma.ErrorModel
	if errors.As(foreign, &model) {
		p.Detail = sentence(model)
	}
	return p, nil
}

// sentence returns what is wrong and where.
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
	_ = json.NewEncoder(w).Encode(p) // fails only if the caller is gone
}
