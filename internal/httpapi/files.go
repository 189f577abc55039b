package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
)

type fileUpload struct {
	ID      string   `path:"id"`
	LeaseID string   `query:"lease_id" doc:"The lease under which the caller holds the task"`
	Path    string   `query:"path" doc:"The file's path in the worker's folder, relative, with slashes; unique within an attempt"`
	SHA256  string   `query:"sha256" doc:"Of the body, in hex"`
	Type    string   `query:"type" doc:"FILE when absent"`
	Tag     []string `query:"tag,explode" doc:"A tag of the artifact (repeatable)"`
}

// putFile streams the body. What would be refused in any case is refused before the
// body is read.
func (s *Server) putFile(ctx context.Context, c *call, in *fileUpload) (*reply[bloom.Artifact], error) {
	size := c.r.ContentLength
	if size < 0 {
		return nil, bloom.Invalid("The request must state its length", bloom.FieldError{Field: "Content-Length", Message: "is missing"})
	}
	body := s.pacedBody(c, size, 0)
	defer body.end()
	if err := s.mayUse(ctx, c, in.ID, in.LeaseID); err != nil {
		return nil, err
	}
	f := dispatch.FileUpload{TaskID: in.ID, LeaseID: in.LeaseID, Path: in.Path, Type: in.Type, Tags: in.Tag, Size: size, SHA256: in.SHA256, Actor: actorOf(c, "")}
	if err := s.svc.CheckFile(ctx, f); err != nil {
		return nil, err
	}
	a, err := s.svc.PutFile(ctx, f, body)
	err = body.cause(err)
	return &reply[bloom.Artifact]{http.StatusOK, a}, err
}

// pacedReader sets a deadline for each read of a body. A sender that sends nothing
// for that long loses the connection; a slow sender does not, until the deadline of
// the whole body.
type pacedReader struct {
	r       io.Reader
	rc      *http.ResponseController
	timeout time.Duration
	until   time.Time // zero: no limit
	err     error
}

// pacedBody returns the request's body of size bytes, which may take at most within,
// or any time if that is 0. The caller calls end once it no longer reads it.
func (s *Server) pacedBody(c *call, size int64, within time.Duration) *pacedReader {
	s.allowUntil(c.w, within)
	p := &pacedReader{r: http.MaxBytesReader(c.w, c.r.Body, size), rc: http.NewResponseController(c.w), timeout: s.streamTimeout}
	if within > 0 {
		p.until = time.Now().Add(within) // the connection's clock, not the engine's
	}
	return p
}

func (p *pacedReader) Read(b []byte) (int, error) {
	limit := time.Now().Add(p.timeout)
	if !p.until.IsZero() && p.until.Before(limit) {
		limit = p.until
	}
	_ = p.rc.SetReadDeadline(limit)
	n, err := p.r.Read(b)
	if err == nil || errors.Is(err, io.EOF) {
		_ = p.rc.SetReadDeadline(time.Time{}) // net/http would take an expired deadline for a disconnect
	}
	if err != nil {
		p.err = err
	}
	return n, err
}

// end limits how long net/http may read the rest of the body in order to reuse the
// connection.
func (p *pacedReader) end() {
	if p.err == nil {
		_ = p.rc.SetReadDeadline(time.Now().Add(p.timeout))
	}
}

// cause returns the body's error if it has caused err, else err.
func (p *pacedReader) cause(err error) error {
	if err == nil || p.err == nil || errors.Is(p.err, io.EOF) {
		return err
	}
	return bodyError(p.err)
}
