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
	// collectBody is the admission, in bytes, from which release collects garbage.
	collectBody = 16 << 20
)

var errBusy = &bloom.Error{Kind: bloom.KindUnavailable, Code: "busy",
	Message: "The server has no memory for another large request now; try again shortly"}

// budget limits the memory of all large bodies together. It is safe for concurrent
// use.
type budget struct {
	size int64
	sem  *semaphore.Weighted
}

func newBudget(size int64) *budget {
	size = max(size, limitComplete) // the largest body must fit when it is the only one
	return &budget{size: size, sem: semaphore.NewWeighted(size)}
}

// admit waits until a body of n bytes fits, in order of arrival. After bodyWait it
// fails with errBusy. The admission ends when the call has been answered.
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

// release ends a call's admission. After a large body it collects garbage first,
// because the next body is admitted to that memory.
func (b *budget) release(c *call) {
	if c.admitted > 0 {
		if c.admitted >= collectBody {
			runtime.GC()
		}
		b.sem.Release(c.admitted)
		c.admitted = 0
	}
}

// readBody reads a body of at most limit bytes into buf. A large body first waits for
// admission. Before that, check, unless it is nil, gets the beginning of the body and
// may refuse it.
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
		size = limit // the length is unknown
	}
	if err := s.bodies.admit(c.r.Context(), c, size); err != nil {
		return err
	}
	if c.r.ContentLength > 0 {
		buf.Grow(int(size) - n + bytes.MinRead) // doubling would take twice as much
	}
	_, err = buf.ReadFrom(body)
	return bodyError(err)
}

// readFull fills p from r. ended means that r has no more data.
func readFull(r io.Reader, p []byte) (n int, ended bool, err error) {
	n, err = io.ReadFull(r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, true, nil
	}
	return n, false, err
}

// leaseIn returns the lease_id from the beginning of a JSON object, "" if it is not
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
			_ = d.Decode(&id) // decoding the whole body reports a wrong type
			return id
		}
		if d.Decode(&skipped) != nil {
			return ""
		}
	}
}

// pacedWriter sets a deadline for each write. A reader that takes nothing for that
// long loses the connection; a slow reader does not.
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

// Flush sends what was written.
func (p *pacedWriter) Flush() error {
	p.extend()
	return p.rc.Flush()
}

func (p *pacedWriter) extend() {
	_ = p.rc.SetWriteDeadline(time.Now().Add(p.timeout)) // real time, not the injected clock
}
