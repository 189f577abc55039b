package httpapi

import (
	"context"
	"net/http"
	"sync"

	"github.com/bloom-runtime/bloom/internal/auth"
)

// recorder notes what a handler answers, for the log, and holds back what the
// mux says by itself (its plain 404 and 405), for which we have words of our own.
type recorder struct {
	http.ResponseWriter
	status  int
	matched bool // a route of ours has taken over
	held    int  // the status the mux wanted to send
}

var recorders = sync.Pool{New: func() any { return new(recorder) }}

func (rec *recorder) WriteHeader(status int) {
	if !rec.matched && status >= 400 {
		rec.held = status
		return
	}
	if rec.status == 0 && status >= 200 {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(p []byte) (int, error) {
	if rec.held != 0 {
		return len(p), nil
	}
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	return rec.ResponseWriter.Write(p)
}

// Flush makes streams flow.
func (rec *recorder) Flush() {
	if f, ok := rec.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap lets http.ResponseController find the connection.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// call is one request on its way through: who sent it and how it is named.
type call struct {
	id     string
	caller auth.Principal
	r      *http.Request
	w      http.ResponseWriter
	accept string // the header
	rest   func() // what lasting has left to do

	admitted int64 // bytes of the server's budget that the call holds
}

type callKey struct{}

// callOf is the call that ctx belongs to.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}
