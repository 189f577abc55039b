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

// maxBody bounds a request's body, in bytes.
const maxBody = 1 << 20

// middleware wraps every request: it recovers panics, refuses cross-origin requests, gives the
// mux's own 404 and 405 the API's form, counts and logs.
func (s *Server) middleware(mux *http.ServeMux) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() { s.finish(rec, r, began, recover()) }()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := origin.Check(r); err != nil {
			problem(http.StatusForbidden, "Requests from pages of other origins are not allowed").write(rec)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		r.URL.Path = clean(r.URL.Path)
		r.Header.Del("Accept") // responses have one form, and huma 2.39 panics on "a;,"
		if _, rec.route = mux.Handler(r); rec.route == "" {
			if refused := s.limited(rec, r, s.auth.caller(r.Context(), presented(r))); refused != nil {
				refused.write(rec)
				return
			}
			rec.unrouted(mux, r)
			return
		}
		mux.ServeHTTP(rec, withHost(r))
	})
}

// finish ends a request: it logs and counts it. Keys and bodies are never logged.
func (s *Server) finish(rec *recorder, r *http.Request, began time.Time, panicked any) {
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

// recorder records the status, and changes 422, huma's status for an invalid body, to the API's
// 400.
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

// Unwrap supports http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// unrouted answers a request without a route. The mux knows whether the path or the method is
// wrong; of its plain text response only the status and the Allow header are used.
func (r *recorder) unrouted(mux *http.ServeMux, req *http.Request) {
	asked := &discarded{header: http.Header{}}
	mux.ServeHTTP(asked, req)
	switch asked.status {
	case http.StatusMethodNotAllowed:
		r.Header()["Allow"] = asked.header["Allow"]
		problem(asked.status, "Method Not Allowed").write(r)
	default:
		problem(http.StatusNotFound, "Not Found").write(r)
	}
}

// discarded is a response that records only status and header.
type discarded struct {
	header http.Header
	status int
}

func (v *discarded) Header() http.Header         { return v.header }
func (v *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (v *discarded) WriteHeader(status int)      { v.status = status }
