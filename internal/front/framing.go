package front

import (
	"io"
	"math"
	"net"
	"net/http"
	"strings"
)

// Strict wraps a listener of plain HTTP. It makes the server answer 400 to a request that states
// its length more than once (Content-Length and Transfer-Encoding, or either of them twice).
// net/http uses one of them; a proxy in front may use the other and forward the rest as a body that
// is really a second request (request smuggling). It requires a handler wrapped in EndConnection.
func Strict(l net.Listener) net.Listener { return strictListener{l} }

type strictListener struct{ net.Listener }

func (l strictListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &strictConn{Conn: c}, nil
}

// strictConn inspects what is read from a connection before net/http does.
type strictConn struct {
	net.Conn
	framing framing
}

func (c *strictConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.framing.look(p[:n])
	return n, err
}

// NetConn returns the connection below.
func (c *strictConn) NetConn() net.Conn { return c.Conn }

// ReadFrom keeps sendfile(2).
func (c *strictConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite lets net/http finish a response before it closes.
func (c *strictConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// framing parses the requests of a connection, up to the first one whose end it would have to
// search for; EndConnection makes that one the last.
type framing struct {
	body     int64 // remaining bytes of it
	last     bool  // its end is unknown
	begun    bool  // the request line has been read
	line     int   // bytes of this line so far
	name     [maxFramingName]byte
	inLength bool // in the value of Content-Length
	stated   bool // the length of the body was stated
	length   int64
	chunked  bool
}

const maxFramingName = len("Transfer-Encoding")

// look turns a second statement of the length into an invalid line, which makes net/http answer 400
// and close the connection.
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
		f.length = f.length*10 + int64(b-'0') // net/http refuses what is not a number
	}
	f.line = min(f.line, maxFramingName) + 1
}

// repeats processes the name of a header and reports whether it states the length again.
func (f *framing) repeats() bool {
	name := string(f.name[:f.line])
	f.inLength = strings.EqualFold(name, "Content-Length")
	if !f.inLength && !strings.EqualFold(name, "Transfer-Encoding") {
		return false
	}
	again := f.stated
	f.stated, f.chunked = true, !f.inLength
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

// EndConnection wraps h and closes the connection after each request whose body is chunked or whose
// version is below HTTP/1.1, so that two servers cannot disagree about where the next request
// starts.
func EndConnection(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
