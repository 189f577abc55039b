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
	Path    string   `query:"path" doc:"The file's place in the worker's folder, relative and with slashes; unique within an attempt"`
	SHA256  string   `query:"sha256" doc:"Of the body, in hex"`
	Type    string   `query:"type" doc:"FILE when absent"`
	Tag     []string `query:"tag,explode" doc:"A tag of the artifact (repeatable)"`
}

// putFile passes the body on as it comes; nothing of it is held in memory. What would
// be refused in any case is refused before the body is read.
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
	err = body.trouble(err)
	return &reply[bloom.Artifact]{http.StatusOK, a}, err
}

// pacedReader gives each read of a body a time of its own: a sender that sends nothing
// for that long loses the connection, and one that is slow but sends does not, until
// the time for the whole is over.
type pacedReader struct {
	r       io.Reader
	rc      *http.ResponseController
	timeout time.Duration
	until   time.Time // zero: however long it takes
	err     error
}

// pacedBody is the request's body of size bytes, which may take as long as within in
// whole; however long when that is 0. Call end when it is no longer read.
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
		_ = p.rc.SetReadDeadline(time.Time{}) // net/http takes its passing for the caller's leaving
	}
	if err != nil {
		p.err = err
	}
	return n, err
}

// end bounds what net/http reads of the rest, so as to use the connection again.
func (p *pacedReader) end() {
	if p.err == nil {
		_ = p.rc.SetReadDeadline(time.Now().Add(p.timeout))
	}
}

// trouble is the body's error where it has caused the given one.
func (p *pacedReader) trouble(err error) error {
	if err == nil || p.err == nil || errors.Is(p.err, io.EOF) {
		return err
	}
	return bodyError(p.err)
}
