package httpapi

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
)

// panicked logs a panic once, with its stack, and answers the request. cut means that
// a response has begun and cannot be completed.
func (s *Server) panicked(rec *recorder, r *http.Request, id string, p any) (cut bool) {
	if p == http.ErrAbortHandler || r.Context().Err() != nil { //nolint:errorlint // a panic's value is never wrapped
		return true // the caller is gone, or the handler meant to cut
	}
	s.log.LogAttrs(r.Context(), slog.LevelError, "a handler panicked",
		slog.String("request_id", id), slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
	if rec.status != 0 {
		return true
	}
	rec.matched, rec.held = true, 0
	f := &Failure{Message: bloom.Internal(nil).Message, Code: bloom.CodeInternal, RequestID: id, status: http.StatusInternalServerError}
	f.write(rec)
	return false
}

// logRequest logs one line per request. It never logs the query, headers or body,
// which may contain keys and prompts.
func (s *Server) logRequest(r *http.Request, status int, id string, took time.Duration) {
	ctx, level := r.Context(), s.requestLevel
	if status >= http.StatusInternalServerError {
		level = slog.LevelInfo
	}
	if status == http.StatusTooManyRequests || isProbe(r.URL.Path) && s.probed.Allow("").Wait > 0 {
		level = slog.LevelDebug // there may be very many; limits log a summary of the refused ones
	}
	if !s.log.Enabled(ctx, level) {
		return
	}
	if status == 0 {
		status = http.StatusOK
	}
	path := r.URL.EscapedPath()
	if len(path) > 256 {
		path = path[:256] + "…"
	}
	var line [320]byte
	b := append(line[:0], r.Method...)
	b = append(b, ' ')
	b = append(b, path...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, took.Milliseconds(), 10)
	b = append(b, "ms"...)
	s.log.LogAttrs(ctx, level, string(b), slog.String("request_id", id), slog.String("client", s.proxies.Client(r)))
}

// requestID returns the caller's id for the request if it is valid, else a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); validID(id) {
		return id
	}
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails since Go 1.24
	return hex.EncodeToString(raw[:])
}

func validID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// unmatched answers requests for which there is no route.
func (s *Server) unmatched(rec *recorder, r *http.Request, id string) {
	caller, err := s.auth.Authenticate(r)
	if err != nil {
		caller = auth.Principal{}
	}
	if err := s.limited(rec, r, caller, auth.Open); err != nil {
		rec.held = 0
		s.failure(r.Context(), id, err).write(rec)
		return
	}
	f := &Failure{Message: "There is nothing at this address", Code: bloom.CodeNotFound, RequestID: id, status: rec.held}
	switch rec.held {
	case http.StatusMethodNotAllowed:
		f.Message, f.Code = "This address does not support "+methodText(r.Method), CodeMethod
	case http.StatusNotFound:
	default:
		f.Message, f.Code = "The request is invalid", bloom.CodeInvalid
	}
	rec.held = 0
	f.write(rec)
}

func methodText(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "this method"
}

var (
	nosniff = []string{"nosniff"}
	noStore = []string{"no-store"}
)
