package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

type contentQuery struct {
	ID       string `path:"id"`
	Redirect string `query:"redirect" doc:"1: answer 307 with an address in the object storage that works for 15 minutes without a key; content that is stored elsewhere is streamed as usual"`
}

// artifactContent sends the content as an attachment, because content that a model
// wrote must never run as a page of this origin. It supports ranges and conditions
// (RFC 9110). If the content turns out to differ from what was recorded, the
// connection is cut, so that nobody takes it for complete.
func (s *Server) artifactContent(ctx context.Context, c *call, in *contentQuery) (*huma.StreamResponse, error) {
	return s.sendArtifact(ctx, c, in.ID, in.Redirect == "1")
}

func (s *Server) sendArtifact(ctx context.Context, c *call, id string, redirect bool) (*huma.StreamResponse, error) {
	if err := s.countStream(c); err != nil {
		return nil, err
	}
	if err := s.reserve(ctx, c, contract.InlineContentLimit); err != nil {
		return nil, err
	}
	a, err := s.store.Artifact(ctx, id)
	if err != nil {
		return nil, err
	}
	if a.Content == nil {
		c.answered(0) // it is not in memory
	} else {
		c.answered(len(*a.Content))
	}
	link := ""
	if redirect {
		if link, err = s.svc.Content.Link(ctx, a); err != nil {
			return nil, err
		}
	}
	return lasting(c, func() {
		if link != "" {
			http.Redirect(c.w, c.r, link, http.StatusTemporaryRedirect)
			return
		}
		s.serveContent(ctx, c, a)
	})
}

func (s *Server) serveContent(ctx context.Context, c *call, a bloom.Artifact) {
	content := &contentReader{open: func(offset int64) (io.ReadCloser, error) { return s.svc.Content.OpenRange(ctx, a, offset, -1) },
		size: a.Size, sum: a.SHA256, hash: sha256.New()}
	defer content.Close()
	w := &heldHeader{w: c.w, to: s.paced(c.w)}
	if a.Content != nil { // it is in memory meanwhile
		w.to = steady(c.w)
	}
	h := w.Header()
	h.Set("Content-Type", mediaOf(a))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.FileName()}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, no-cache") // a browser may cache it, but must revalidate
	h.Set("ETag", `"`+a.SHA256+`"`)
	http.ServeContent(w, c.r, "", time.Time{}, content)
	switch {
	case content.err == nil:
		w.send()
	case !w.sent:
		for _, name := range []string{"Cache-Control", "Content-Disposition", "Content-Length", "Content-Range", "Accept-Ranges", "ETag"} {
			h.Del(name)
		}
		s.failure(ctx, c.id, content.err).write(c.w)
	default:
		if ctx.Err() == nil {
			s.log.ErrorContext(ctx, "sending an artifact's content failed", "request_id", c.id, "artifact_id", a.ID, "error", content.err)
		}
		panic(http.ErrAbortHandler)
	}
}

// heldHeader delays the status until there is content, so that content that cannot be
// opened still gets a proper error.
type heldHeader struct {
	w      http.ResponseWriter
	to     io.Writer
	status int
	sent   bool
}

func (h *heldHeader) Header() http.Header    { return h.w.Header() }
func (h *heldHeader) WriteHeader(status int) { h.status = status }

func (h *heldHeader) send() {
	if !h.sent && h.status != 0 {
		h.w.WriteHeader(h.status)
	}
	h.sent = true
}

func (h *heldHeader) Write(p []byte) (int, error) {
	h.send()
	return h.to.Write(p)
}

var errAltered = errors.New("the stored content is not what was recorded")

// contentReader is the io.ReadSeeker for http.ServeContent. It opens the content at
// the first read after a seek. When it reads from the beginning to the end, it checks
// the digest before it returns the last part.
type contentReader struct {
	open func(offset int64) (io.ReadCloser, error)
	size int64
	sum  string

	at    int64
	src   io.ReadCloser
	whole bool // src began at 0
	hash  hash.Hash
	err   error
}

// Seek does not open the content.
func (c *contentReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset != c.at {
		c.Close()
	}
	c.at = offset
	return offset, nil
}

func (c *contentReader) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.at >= c.size {
		return 0, io.EOF
	}
	if c.src == nil {
		if c.src, c.err = c.open(c.at); c.err != nil {
			return 0, c.err
		}
		c.whole = c.at == 0
		c.hash.Reset()
	}
	n, err := c.src.Read(p[:min(int64(len(p)), c.size-c.at)])
	c.hash.Write(p[:n])
	c.at += int64(n)
	switch {
	case c.at == c.size && c.whole && !c.intact():
		c.err = errAltered
	case errors.Is(err, io.EOF) && c.at < c.size:
		c.err = errAltered
	case err != nil && !errors.Is(err, io.EOF):
		c.err = err
	}
	if c.err != nil {
		return 0, c.err
	}
	return n, nil
}

// intact reports whether the digest is right and no further data follows.
func (c *contentReader) intact() bool {
	more, _ := io.ReadFull(c.src, make([]byte, 1))
	return more == 0 && hex.EncodeToString(c.hash.Sum(nil)) == c.sum
}

// Close closes the open content.
func (c *contentReader) Close() {
	if c.src != nil {
		c.src.Close()
		c.src = nil
	}
}

// contentLines answers with one JSON object per line, while the work proceeds.
func (s *Server) contentLines(ctx context.Context, c *call, work func(context.Context, func(bloom.ContentLine)) error) (*huma.StreamResponse, error) {
	return lasting(c, func() {
		var out *streamWriter
		line := func(l bloom.ContentLine) {
			if out == nil {
				out = s.openStream(c.w, true)
			}
			_, _ = out.w.Write(append(storable.MustJSON(l), '\n')) // if the caller is gone, ctx ends
			_ = out.flush()
		}
		err := work(ctx, line)
		switch {
		case err == nil:
		case out == nil:
			s.failure(ctx, c.id, err).write(c.w)
		default:
			line(bloom.ContentLine{Done: true, Error: s.failure(ctx, c.id, err).Message})
		}
	})
}
