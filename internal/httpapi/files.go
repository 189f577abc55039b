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
	if err := s.mayUse(ctx, c, in.ID, in.LeaseID); err != nil {
		return nil, err
	}
	f := dispatch.FileUpload{TaskID: in.ID, LeaseID: in.LeaseID, Path: in.Path, Type: in.Type, Tags: in.Tag, Size: size, SHA256: in.SHA256, Actor: c.caller.Name}
	if err := s.svc.CheckFile(ctx, f); err != nil {
		return nil, err
	}
	s.allowUntil(c.w, 0)
	body := &pacedReader{r: http.MaxBytesReader(c.w, c.r.Body, size), rc: http.NewResponseController(c.w), timeout: s.streamTimeout}
	a, err := s.svc.PutFile(ctx, f, body)
	if err != nil && body.err != nil {
		err = bodyError(body.err)
	}
	return &reply[bloom.Artifact]{http.StatusOK, a}, err
}

// pacedReader gives each read of a body a time of its own: a sender that sends nothing
// for that long loses the connection, and one that is slow but sends does not.
type pacedReader struct {
	r       io.Reader
	rc      *http.ResponseController
	timeout time.Duration
	err     error
}

func (p *pacedReader) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(p.timeout)) // the connection's clock, not the engine's
	n, err := p.r.Read(b)
	_ = p.rc.SetReadDeadline(time.Time{}) // net/http takes its passing for the caller's leaving
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}
