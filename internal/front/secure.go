package front

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// secured wraps a listener with TLS. net/http gets the decrypted stream and not a *tls.Conn, because it
// would read that directly, without Strict's check. There is no HTTP/2: each of its streams takes as
// much memory as a connection, and the limits of connections would not count them.
func secured(l net.Listener, h *http.Server, log *slog.Logger) net.Listener {
	h.Protocols = new(http.Protocols)
	h.Protocols.SetHTTP1(true)
	config := h.TLSConfig.Clone() // net/http changes its own
	if !slices.Contains(config.NextProtos, "http/1.1") {
		config.NextProtos = append(config.NextProtos, "http/1.1")
	}
	return securedListener{l, config, log, &rate.Sometimes{Interval: refusedCertificatesEvery}}
}

// refusedCertificatesEvery bounds how often a refused client certificate is logged.
const refusedCertificatesEvery = 10 * time.Second

type securedListener struct {
	net.Listener

	config  *tls.Config
	log     *slog.Logger
	refused *rate.Sometimes // logs a client certificate that is refused
}

func (l securedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	secure := tls.Server(c, l.config)
	return &securedConn{strictConn: strictConn{Conn: secure}, secure: secure, log: l.log, refused: l.refused}, nil
}

// securedConn is the decrypted stream of a TLS connection. The first Read performs the handshake, within
// the time that net/http allows for a request's headers.
type securedConn struct {
	strictConn

	secure  *tls.Conn
	log     *slog.Logger
	refused *rate.Sometimes
	state   atomic.Pointer[tls.ConnectionState] // nil before the handshake
}

// NetConn returns the connection below TLS.
func (c *securedConn) NetConn() net.Conn { return c.secure.NetConn() }

func (c *securedConn) Read(p []byte) (int, error) {
	if c.state.Load() == nil {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	return c.strictConn.Read(p)
}

// handshakeWrites bounds how long the peer may take to read our part of a handshake.
const handshakeWrites = 10 * time.Second

// handshake reports a failure only in the log: net/http sees a closed connection.
func (c *securedConn) handshake() error {
	_ = c.SetWriteDeadline(time.Now().Add(handshakeWrites))
	if err := c.secure.HandshakeContext(context.Background()); err != nil {
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
			_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		}
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			c.refused.Do(func() {
				c.log.Warn("refused a client certificate", "client", c.RemoteAddr().String(), "error", err)
			})
		}
		c.log.Debug("a TLS handshake failed", "client", c.RemoteAddr().String(), "error", err)
		return io.EOF
	}
	_ = c.SetWriteDeadline(time.Time{})
	state := c.secure.ConnectionState()
	c.state.Store(&state)
	return nil
}

func looksLikeHTTP(header [5]byte) bool {
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH"}, string(header[:]))
}

// overTLS sets r.TLS, as net/http does for a *tls.Conn.
func overTLS(r *http.Request) {
	if one, known := r.Context().Value(connectionKey{}).(*connection); known {
		if c, is := one.Conn.(*securedConn); is {
			r.TLS = c.state.Load()
		}
	}
}
