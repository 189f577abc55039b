package httpapi

import (
	"archive/zip"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

type contentQuery struct {
	ID       string `path:"id"`
	View     string `query:"view" doc:"1: HTML may be shown in a frame of this server's pages, where it runs no script and loads nothing"`
	Redirect string `query:"redirect" doc:"1: answer 307 with an address in the object storage that works for 15 minutes without a key; content that is stored elsewhere is streamed as usual"`
}

// artifactContent sends the content as an attachment, because content that a model
// wrote must never run as a page of this origin. It supports ranges and conditions
// (RFC 9110). If the content turns out to differ from what was recorded, the
// connection is cut, so that nobody takes it for complete.
func (s *Server) artifactContent(ctx context.Context, c *call, in *contentQuery) (*huma.StreamResponse, error) {
	return s.sendArtifact(ctx, c, *in)
}

func (s *Server) sendArtifact(ctx context.Context, c *call, in contentQuery) (*huma.StreamResponse, error) {
	if err := s.countStream(c); err != nil {
		return nil, err
	}
	if err := s.reserve(ctx, c, contract.InlineContentLimit); err != nil {
		return nil, err
	}
	a, err := s.store.Artifact(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if a.Content == nil {
		c.answered(0) // it is not in memory
	} else {
		c.answered(len(*a.Content))
	}
	link := ""
	if in.Redirect == "1" {
		if link, err = s.svc.Content.Link(ctx, a); err != nil {
			return nil, err
		}
	}
	return lasting(c, func() {
		if link != "" {
			http.Redirect(c.w, c.r, link, http.StatusTemporaryRedirect)
			return
		}
		s.serveContent(ctx, c, a, in.View == "1" && strings.HasPrefix(a.MediaType, "text/html"))
	})
}

// framed is the policy of HTML that is shown in a frame. The sandbox gives it an origin of its own
// and forbids scripts, forms and navigation of the page around it.
const framed = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'"

func (s *Server) serveContent(ctx context.Context, c *call, a bloom.Artifact, view bool) {
	content := s.contentOf(ctx, a)
	defer content.Close()
	w := &heldHeader{w: c.w, to: s.paced(c.w)}
	if a.Content != nil { // it is in memory meanwhile
		w.to = steady(c.w)
	}
	h := w.Header()
	h.Set("Content-Type", mediaOf(a))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.FileName()}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	if view {
		h.Del("Content-Disposition")
		h.Set("Content-Security-Policy", framed)
	}
	h.Set("Cache-Control", "private, no-cache") // a browser may cache it, but must revalidate
	h.Set("ETag", `"`+a.SHA256+`"`)
	http.ServeContent(w, c.r, "", time.Time{}, content)
	s.finish(ctx, c, w, content.err)
}

// finish ends a response: with an error instead if nothing was sent yet, or else with a cut connection.
func (s *Server) finish(ctx context.Context, c *call, w *heldHeader, err error) {
	h := w.Header()
	switch {
	case err == nil:
		w.send()
	case !w.sent:
		for _, name := range []string{"Cache-Control", "Content-Disposition", "Content-Length", "Content-Range", "Accept-Ranges", "ETag"} {
			h.Del(name)
		}
		s.failure(ctx, c.id, err).write(c.w)
	default:
		if ctx.Err() == nil {
			s.log.ErrorContext(ctx, "sending an artifact's content failed", "request_id", c.id, "path", c.r.URL.Path, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}

// mostArchived bounds an archive.
const mostArchived = 1000

// archive sends the newest artifacts that match a filter as a ZIP archive. It reads one after the
// other, and cuts the connection if one cannot be read.
func (s *Server) archive(ctx context.Context, c *call, in *archiveFilter) (*huma.StreamResponse, error) {
	if err := s.countStream(c); err != nil {
		return nil, err
	}
	if err := s.reserve(ctx, c, contract.InlineContentLimit); err != nil { // until it ends: one artifact's content is in memory
		return nil, err
	}
	q := bloom.ArtifactQuery{TaskID: in.TaskID, Type: in.Type, Page: bloom.Page{Limit: 100, TextBytes: 1}}
	return lasting(c, func() {
		w := &heldHeader{w: c.w, to: s.paced(c.w), status: http.StatusOK}
		w.Header().Set("Content-Type", "application/zip")
		w.Header().Set("Content-Disposition", `attachment; filename="artifacts.zip"`)
		s.finish(ctx, c, w, s.writeArchive(ctx, w, q))
	})
}

func (s *Server) writeArchive(ctx context.Context, w io.Writer, q bloom.ArtifactQuery) error {
	z := zip.NewWriter(w)
	names := map[string]bool{}
	for listed := 0; ; listed += q.Limit {
		list, next, err := s.lists.Artifacts(ctx, q)
		if err != nil {
			return err
		}
		for _, a := range list {
			if a.Size == 0 && a.Type == bloom.DefaultArtifactType {
				continue
			}
			if err := s.addToArchive(ctx, z, names, a, q.TaskID == ""); err != nil {
				return err
			}
		}
		if q.Cursor = next; next == (bloom.Cursor{}) || len(names) >= mostArchived || listed >= 10*mostArchived {
			return z.Close()
		}
	}
}

func (s *Server) addToArchive(ctx context.Context, z *zip.Writer, names map[string]bool, a bloom.Artifact, ofMany bool) error {
	if a.URL == nil { // the list has only the beginning of its content
		var err error
		if a, err = s.store.Artifact(ctx, a.ID); err != nil {
			return err
		}
	}
	name := cmp.Or(a.Path, a.FileName())
	if ofMany {
		name = path.Join(a.TaskID, name)
	}
	if names[name] { // of another attempt
		name = path.Join(path.Dir(name), a.ID+"-"+path.Base(name))
	}
	names[name] = true
	file, err := z.CreateHeader(&zip.FileHeader{Name: name, Modified: time.UnixMilli(a.CreatedAt).UTC()})
	if err != nil {
		return err
	}
	content := s.contentOf(ctx, a)
	defer content.Close()
	_, err = io.Copy(file, content)
	return err
}

func (s *Server) contentOf(ctx context.Context, a bloom.Artifact) *contentReader {
	return &contentReader{open: func(offset int64) (io.ReadCloser, error) { return s.svc.Content.OpenRange(ctx, a, offset, -1) },
		size: a.Size, sum: a.SHA256, hash: sha256.New()}
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

// Write sends the header first.
func (h *heldHeader) Write(p []byte) (int, error) {
	h.send()
	return h.to.Write(p)
}

func (h *heldHeader) send() {
	if !h.sent && h.status != 0 {
		h.w.WriteHeader(h.status)
	}
	h.sent = true
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
