package front

import (
	"io"
	"math"
	"net"
	"net/http"
	"strings"
)

// Strict wraps a listener of plain HTTP, and secured does one of HTTP/1.1 over TLS: a request that tells its length more than
// once (Content-Length and Transfer-Encoding, or either of them twice) is answered
// 400. net/http believes one of them; a proxy in front may believe the other and let
// what it takes for a body pass unseen as a request. It needs the handler from
// EndConnection.
func Strict(l net.Listener) net.Listener { return strictListener{l} }

type strictListener struct{ net.Listener }

func (l strictListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &strictConn{Conn: c}, nil
}

// strictConn looks at what is read from a connection before net/http does.
type strictConn struct {
	net.Conn
	framing framing
}

func (c *strictConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.framing.look(p[:n])
	return n, err
}

// ReadFrom keeps sendfile(2).
func (c *strictConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite lets net/http end an answer before it closes.
func (c *strictConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// framing follows the requests of a connection up to the first one whose end it would
// have to search for; EndConnection makes that one the last.
type framing struct {
	body     int64 // bytes of it still to come
	last     bool  // its end is not known
	begun    bool  // the request line has been read
	line     int   // bytes of this line so far
	name     [maxFramingName]byte
	inLength bool // in the value of Content-Length
	told     bool // how long the body is
	length   int64
	chunked  bool
}

const maxFramingName = len("Transfer-Encoding")

// look makes a second statement of the length an invalid line, which net/http
// refuses with 400 and the end of the connection.
func (f *framing) look(p []byte) {
	for i := 0; i < len(p) && !f.last; i++ {
		if f.body > 0 {
			skip := min(f.body, int64(len(p)-i))
			f.body -= skip
			i += int(skip) - 1
			continue
		}
		switch b := p[i]; {
		case b == '\n':
			f.endLine()
		case b == '\r':
		case f.begun && b == ':' && f.line <= maxFramingName && f.repeats():
			p[i] = 0
			f.last = true
		default:
			f.char(b)
		}
	}
}

func (f *framing) char(b byte) {
	if f.line < maxFramingName {
		f.name[f.line] = b
	}
	if f.inLength && '0' <= b && b <= '9' && f.length < math.MaxInt64/100 {
		f.length = f.length*10 + int64(b-'0') // net/http refuses what is no number
	}
	f.line = min(f.line, maxFramingName) + 1
}

// repeats takes the name of a header and reports whether it states the length again.
func (f *framing) repeats() bool {
	name := string(f.name[:f.line])
	f.inLength = strings.EqualFold(name, "Content-Length")
	if !f.inLength && !strings.EqualFold(name, "Transfer-Encoding") {
		return false
	}
	again := f.told
	f.told, f.chunked = true, !f.inLength
	return again
}

func (f *framing) endLine() {
	switch {
	case f.line > 0:
		f.begun = true
	case f.begun: // the end of the headers
		*f = framing{body: f.length, last: f.chunked}
	}
	f.line, f.inLength = 0, false
}

// EndConnection has h answer, and ends the connection with each request whose body
// is chunked or that is older than HTTP/1.1: where the next one begins is then not
// left to what two servers make of it.
func EndConnection(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
