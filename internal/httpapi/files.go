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
	body := s.pacedBody(c, size, s.streamTimeout, 0)
	if err := s.mayUse(ctx, c, in.ID, in.LeaseID); err != nil {
		return nil, err
	}
	if err := s.countStream(c); err != nil {
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

// slowestSender is how fast a body must arrive on average, in bytes per second.
const slowestSender = 16 << 10

// pacedReader is a body that must arrive steadily: a sender that sends nothing for grace, or is slower
// than slowestSender for long, loses the connection.
type pacedReader struct {
	r     io.Reader
	rc    *http.ResponseController
	left  time.Duration // how long the sender may still be waited for
	grace time.Duration // the most of left
	until time.Time     // zero: no limit
	err   error
}

// pacedBody returns the request's body of at most limit bytes. It may take at most within, or any time
// if that is 0.
func (s *Server) pacedBody(c *call, limit int64, grace, within time.Duration) *pacedReader {
	s.allowUntil(c.w, within)
	grace = min(grace, s.streamTimeout)
	p := &pacedReader{r: http.MaxBytesReader(c.w, c.r.Body, limit), rc: http.NewResponseController(c.w), left: grace, grace: grace}
	now := time.Now() // the connection's clock, not the engine's
	if within > 0 {
		p.until = now.Add(within)
	}
	p.wait(now) // net/http reads the rest of a refused body in order to reuse the connection
	return p
}

func (p *pacedReader) wait(now time.Time) {
	limit := now.Add(p.left)
	if !p.until.IsZero() && p.until.Before(limit) {
		limit = p.until
	}
	_ = p.rc.SetReadDeadline(limit)
}

func (p *pacedReader) Read(b []byte) (int, error) {
	began := time.Now()
	p.wait(began)
	n, err := p.r.Read(b)
	p.left = min(p.left-time.Since(began)+time.Duration(n)*time.Second/slowestSender, p.grace)
	if errors.Is(err, io.EOF) {
		_ = p.rc.SetReadDeadline(time.Time{}) // net/http would take an expired deadline for a disconnect
	}
	if err != nil {
		p.err = err
	}
	return n, err
}

// cause returns the body's error if it has caused err, else err.
func (p *pacedReader) cause(err error) error {
	if err == nil || p.err == nil || errors.Is(p.err, io.EOF) {
		return err
	}
	return bodyError(p.err)
}
