package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
)

// Limits of the files that are sent at once to callers without a valid key, who can read slowly and
// open many connections.
const (
	transfersOfAll     = 256
	transfersOfNetwork = 64
	transferWait       = 5 * time.Second
	fileTime           = time.Minute // for a file of the web application
)

// sending waits until there is room for one more file to a caller without a valid key, until done is
// called.
func (s *Server) sending(r *http.Request) (done func(), err error) {
	ctx, cancel := context.WithTimeout(r.Context(), transferWait)
	defer cancel()
	part, err := s.files.Acquire(ctx, s.network(r), 1)
	if err != nil {
		return nil, errTransfers
	}
	return func() { part.Shrink(0) }, nil
}

// errTransfers refuses a file. It is no rate limit, because the next attempt may succeed at once.
var errTransfers = &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeBusy,
	Message: "The server is sending many files to callers without a key; try again shortly, or send a key"}

// stranger reports whether the limits of files apply to a caller.
func (s *Server) stranger(caller auth.Principal) bool {
	return s.auth.Mode() != auth.ModeDevelopment && (!caller.Known() || s.auth.Mode() == auth.ModeInsecure)
}

// webFile serves a file of the web application.
func (s *Server) webFile(rec *recorder, r *http.Request, id string) {
	caller, err := s.auth.Authenticate(r)
	if err != nil {
		caller = auth.Principal{}
	}
	if caller.Known() {
		s.known(r)
	}
	serve := func() {
		s.allowUntil(rec, fileTime)
		s.web.ServeHTTP(rec, r)
	}
	if !s.stranger(caller) {
		serve()
		return
	}
	err = s.limits.take(rec, s.limits.files, s.network(r))
	if err == nil {
		var done func()
		if done, err = s.sending(r); err == nil {
			defer done()
			serve()
			return
		}
	}
	rec.matched = true
	s.failure(r.Context(), id, err).write(rec)
}

// download serves a file of the installer.
func (s *Server) download(installer Installer, w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	var err error
	if s.stranger(c.caller) {
		var done func()
		if done, err = s.sending(r); err == nil {
			defer done()
		}
	} else {
		err = s.countStream(c)
	}
	if err != nil {
		s.failure(r.Context(), c.id, err).write(w)
		return
	}
	s.allowUntil(w, 0)
	installer.ServeHTTP(steady(w).(http.ResponseWriter), r)
}
