package httpapi

import (
	"context"
	"net/http"
	"sync"

	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/share"
)

// recorder records the response's status for the log, and intercepts the mux's own
// 404 and 405, which unmatched answers.
type recorder struct {
	http.ResponseWriter
	status  int
	matched bool // a route handles the request
	held    int  // the intercepted status of the mux
	call    *call
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

// Flush implements http.Flusher.
func (rec *recorder) Flush() {
	if f, ok := rec.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap lets http.ResponseController find the connection.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// call is one request and its caller.
type call struct {
	id string
	// operation is the id of the operation, of requests that change something.
	operation string
	caller    auth.Principal
	unknown   error // on an open route: why the store could not tell who the caller is
	r         *http.Request
	w         http.ResponseWriter
	accept    string // the header
	rest      func() // the part of the handler that lasting has deferred
	ends      func() // what follows at the end of the call, however it ends; or nil

	reserved *share.Part // of the response; nil without one
}

// finally adds what follows at the end of the call: last added, first done.
func (c *call) finally(f func()) {
	next := c.ends
	c.ends = func() {
		if next != nil {
			defer next()
		}
		f()
	}
}

type callKey struct{}

// callOf returns the call of ctx.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}
