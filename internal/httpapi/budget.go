package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/share"
)

// Defaults of Config.
const (
	DefaultBodyBudget    = 96 << 20
	DefaultStreamTimeout = 30 * time.Second
)

const (
	tinyBody  = 8 << 10  // most of a body of a caller without a key
	smallBody = 64 << 10 // bodies up to this many bytes need no admission as large ones
	// leastBody is the least memory to which a body is admitted: with its connection, a body of a
	// few bytes takes about as much while it is waited for.
	leastBody = 32 << 10
	bodyWait  = 5 * time.Second // for admission
	bodyGrace = 10 * time.Second
	bodyTime  = 5 * time.Minute // for a whole body
	// collectBody is the admission, in bytes, from which its end collects garbage.
	collectBody = 16 << 20
)

var errBusy = &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeBusy,
	Message: "The server has no memory for another large request now; try again shortly"}

// shareOf divides a memory so that two callers who use all they may leave room for others.
func shareOf(memory int64) *share.Shares { return share.New(memory, memory/3) }

// admit waits until the caller may have n bytes more of a memory, in order of arrival. After bodyWait
// it fails with busy.
func (s *Server) admit(ctx context.Context, c *call, memory *share.Shares, n int64, busy error) (*share.Part, error) {
	ctx, cancel := context.WithTimeout(ctx, bodyWait)
	defer cancel()
	part, err := memory.Acquire(ctx, s.counted(c.r, c.caller), n)
	if err != nil {
		return nil, busy
	}
	return part, nil
}

// readBody reads a body of at most limit bytes into buf; without a key, of at most tinyBody. Small
// and large bodies are admitted to different memories, so that the calls of workers do not wait for
// large bodies with the same key. Before a large body is admitted, check, unless it is nil, gets its
// beginning and may refuse it.
func (s *Server) readBody(c *call, buf *bytes.Buffer, limit int64, check func(beginning []byte) error) error {
	if !c.caller.Known() {
		limit = tinyBody
	}
	size := c.r.ContentLength
	switch {
	case size == 0:
		return nil
	case size > limit:
		return errTooLarge(limit)
	case size < 0:
		size = limit // it is unknown
	}
	body := s.pacedBody(c, limit, bodyGrace, bodyTime)
	ended, err := s.readFirst(c, buf, body, min(size, smallBody))
	if ended || err != nil {
		return err
	}
	if check != nil {
		if err := check(buf.Bytes()); err != nil {
			return err
		}
	}
	part, err := s.admit(c.r.Context(), c, s.large, 2*size, errBusy) // the body and what is decoded from it
	if err != nil {
		return err
	}
	c.finally(func() {
		if 2*size >= collectBody {
			runtime.GC() // the next body is admitted to that memory
		}
		part.Shrink(0)
	})
	if c.r.ContentLength > 0 {
		buf.Grow(int(size) - buf.Len() + bytes.MinRead) // doubling would take twice as much
	}
	_, err = buf.ReadFrom(body)
	return bodyError(err)
}

// readFirst reads the first bytes of a body. ended means that it has no more than n.
func (s *Server) readFirst(c *call, buf *bytes.Buffer, body io.Reader, n int64) (ended bool, err error) {
	part, err := s.admit(c.r.Context(), c, s.small, max(n, leastBody), errBusy)
	if err != nil {
		return false, err
	}
	defer part.Shrink(0)
	buf.Grow(int(n) + bytes.MinRead)
	read, err := buf.ReadFrom(io.LimitReader(body, n+1))
	return read <= n, bodyError(err)
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
