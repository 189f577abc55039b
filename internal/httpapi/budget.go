package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/bloom-runtime/bloom"
)

// Defaults of Config.
const (
	DefaultBodyBudget    = 64 << 20
	DefaultStreamTimeout = 30 * time.Second
)

const (
	smallBody = 64 << 10        // bodies up to this many bytes need no admission
	bodyWait  = 5 * time.Second // for admission
	// collectBody is the admission, in bytes, from which on the garbage is worth a collection.
	collectBody = 16 << 20
)

var errBusy = &bloom.Error{Kind: bloom.KindUnavailable, Code: "busy",
	Message: "The server is reading as many large requests as it has memory for; try again shortly"}

// budget bounds the memory that all large bodies take at once. It is safe for
// concurrent use.
type budget struct {
	size int64
	sem  *semaphore.Weighted
}

func newBudget(size int64) *budget {
	size = max(size, limitComplete) // the largest body must get in when it is alone
	return &budget{size: size, sem: semaphore.NewWeighted(size)}
}

// admit waits until a body of n bytes fits, in order of arrival and for at most bodyWait;
// then the call is answered with 503. What was admitted is released when the call
// has been answered.
func (b *budget) admit(ctx context.Context, c *call, n int64) error {
	n = min(2*n, b.size-c.admitted) // the body and what is decoded from it
	ctx, cancel := context.WithTimeout(ctx, bodyWait)
	defer cancel()
	if b.sem.Acquire(ctx, n) != nil {
		return errBusy
	}
	c.admitted += n
	return nil
}

// release ends an admission. What a large body took is collected first: the next one is
// admitted to the memory, and the collector lets garbage grow with what was in use.
func (b *budget) release(c *call) {
	if c.admitted > 0 {
		if c.admitted >= collectBody {
			runtime.GC()
		}
		b.sem.Release(c.admitted)
		c.admitted = 0
	}
}

// readBody reads a body of at most limit bytes into buf. A large one waits for its
// admission first; check, unless nil, is asked before that, with the beginning of
// the body, whether it is worth reading at all.
func (s *Server) readBody(c *call, buf *bytes.Buffer, limit int64, check func(beginning []byte) error) error {
	size := c.r.ContentLength
	if size > limit {
		return errTooLarge(limit)
	}
	body := http.MaxBytesReader(c.w, c.r.Body, limit)
	if size >= 0 && size <= smallBody {
		_, err := buf.ReadFrom(body)
		return bodyError(err)
	}
	first := make([]byte, smallBody)
	n, ended, err := readFull(body, first)
	if err != nil {
		return bodyError(err)
	}
	buf.Write(first[:n])
	if ended {
		return nil
	}
	if check != nil {
		if err := check(first[:n]); err != nil {
			return err
		}
	}
	if size < 0 {
		size = limit // it may become that long
	}
	if err := s.bodies.admit(c.r.Context(), c, size); err != nil {
		return err
	}
	if c.r.ContentLength > 0 {
		buf.Grow(int(size) - n + bytes.MinRead) // growing by doubling would take twice as much
	}
	_, err = buf.ReadFrom(body)
	return bodyError(err)
}

// readFull fills p from r; ended tells that r ended before or right after.
func readFull(r io.Reader, p []byte) (n int, ended bool, err error) {
	n, err = io.ReadFull(r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, true, nil
	}
	return n, false, err
}

// leaseIn is the lease_id at the beginning of a JSON object, empty when it is not
// there: some clients send it last.
func leaseIn(beginning []byte) string {
	d := json.NewDecoder(bytes.NewReader(beginning))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for {
		key, err := d.Token()
		if err != nil {
			return ""
		}
		var id string
		var skipped json.RawMessage
		if key == "lease_id" {
			_ = d.Decode(&id) // what is not a string is found out when the body is decoded
			return id
		}
		if d.Decode(&skipped) != nil {
			return ""
		}
	}
}

// pacedWriter gives each write a time of its own: a reader that takes nothing for
// that long loses the connection, and one that is slow but reads does not.
type pacedWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
}

func (s *Server) paced(w http.ResponseWriter) *pacedWriter {
	return &pacedWriter{w: w, rc: http.NewResponseController(w), timeout: s.streamTimeout}
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	p.extend()
	return p.w.Write(b)
}

// Flush sends what has been written.
func (p *pacedWriter) Flush() error {
	p.extend()
	return p.rc.Flush()
}

func (p *pacedWriter) extend() {
	_ = p.rc.SetWriteDeadline(time.Now().Add(p.timeout)) // the connection's clock, not the engine's
}
