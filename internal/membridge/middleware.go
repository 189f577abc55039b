package membridge

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
)

// maxBody bounds every request's body.
const maxBody = 1 << 20

// middleware handles every request: it recovers panics, refuses pages of other
// origins, gives the mux's own 404 and 405 our shape, counts and logs.
func (s *Server) middleware(mux *http.ServeMux) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() { s.leave(rec, r, began, recover()) }()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := origin.Check(r); err != nil {
			problem(http.StatusForbidden, "A page of another origin may not do that").write(rec)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if _, rec.route = mux.Handler(r); rec.route == "" {
			if refused := s.limited(rec, r, s.gate.caller(r.Context(), presented(r))); refused != nil {
				refused.write(rec)
				return
			}
			rec.unrouted(mux, r)
			return
		}
		mux.ServeHTTP(rec, withHost(r))
	})
}

// leave ends a request. Keys and bodies are never logged.
func (s *Server) leave(rec *recorder, r *http.Request, began time.Time, panicked any) {
	if panicked != nil && panicked != http.ErrAbortHandler { //nolint:errorlint // a panic's value is never wrapped
		s.cfg.Log.Error("membridge: a handler panicked", slog.Any("panic", panicked), slog.String("stack", string(debug.Stack())))
		if rec.status == 0 {
			problem(http.StatusInternalServerError, bloom.Internal(nil).Message).write(rec)
		}
	}
	took := time.Since(began)
	status := rec.status
	if status == 0 {
		status = http.StatusOK
	}
	s.metrics.requests.WithLabelValues(metricRoute(rec.route), strconv.Itoa(status)).Inc()
	s.cfg.Log.Debug(fmt.Sprintf("%s %s %d %dms", r.Method, r.URL.Path, status, took.Milliseconds()))
	if panicked == http.ErrAbortHandler { //nolint:errorlint // as above
		panic(panicked)
	}
}

// recorder keeps the status, and turns 422, which huma says to a body that
// does not fit, into the wire's 400.
type recorder struct {
	http.ResponseWriter
	status int
	route  string
}

// WriteHeader sends the status.
func (r *recorder) WriteHeader(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// unrouted answers a request that no route takes: the mux knows whether it is the
// path or the method, and says so in plain text, of which only the status and
// the Allow header are kept.
func (r *recorder) unrouted(mux *http.ServeMux, req *http.Request) {
	asked := &verdict{header: http.Header{}}
	mux.ServeHTTP(asked, req)
	switch asked.status {
	case http.StatusMethodNotAllowed:
		r.Header()["Allow"] = asked.header["Allow"]
		problem(asked.status, "Method Not Allowed").write(r)
	default:
		problem(http.StatusNotFound, "Not Found").write(r)
	}
}

// verdict is a response that goes nowhere.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) Write(b []byte) (int, error) { return len(b), nil }
func (v *verdict) WriteHeader(status int)      { v.status = status }
