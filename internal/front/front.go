// Package front handles a server's connections: its sockets, TLS, the redirect from plain HTTP, and
// requests during start and shutdown. It knows nothing about what is served.
package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a Front.
type Config struct {
	// Listener accepts connections; Open closes it when it fails.
	Listener net.Listener
	// HTTP is the server to use, without a handler.
	HTTP *http.Server
	// TLS names the files of the certificate; ACME configures where to obtain one instead. Without
	// either the listener serves plain HTTP.
	TLS  Files
	ACME ACME
	// Redirect, if not nil, accepts plain HTTP and redirects to https.
	Redirect net.Listener
	// Private, if not nil, serves plain HTTP like Listener.
	Private net.Listener
	// Starting is how long a request waits for the handler before it is refused; 0 means
	// DefaultStarting.
	Starting time.Duration
	// MaxConnections limits open connections; 0 means three quarters of the process's open file
	// limit, at most 50,000.
	MaxConnections int
	Logger         *slog.Logger
}

// DefaultStarting is longer than an ordinary start and shorter than proxies' timeouts.
const DefaultStarting = 30 * time.Second

// Front accepts connections from Open on. Requests other than for health wait until there is a
// handler.
type Front struct {
	log      *slog.Logger
	http     *http.Server
	redirect *http.Server // nil without one
	starting time.Duration
	scheme   string
	served   chan error
	serving  sync.WaitGroup // goroutines that send to served
	stop     func()
	sockets  []net.Listener
	conns    *connections

	handler  atomic.Pointer[http.Handler]
	ready    chan struct{} // closed with the first handler
	draining atomic.Bool
}

// Open starts to accept connections. An unusable certificate is an error: it never falls back to
// plain HTTP.
func Open(ctx context.Context, c Config) (_ *Front, err error) {
	listeners := slices.DeleteFunc([]net.Listener{c.Listener, c.Redirect, c.Private}, func(l net.Listener) bool { return l == nil })
	f := &Front{sockets: listeners, log: c.Logger, http: c.HTTP, starting: cmp.Or(c.Starting, DefaultStarting), scheme: "http", conns: newConnections(c.MaxConnections, c.Logger),
		served: make(chan error, len(listeners)), ready: make(chan struct{}), stop: func() {}}
	defer func() {
		if err == nil {
			return
		}
		f.stop()
		f.closeSockets()
	}()
	f.http.Handler, f.http.ConnContext, f.http.ConnState = EndConnection(f.counted(http.HandlerFunc(f.serve))), f.conns.begin, f.conns.changed
	var plain http.Handler = f.toHTTPS(c.Listener.Addr())
	switch {
	case len(c.ACME.Domains) > 0:
		f.http.TLSConfig, plain, f.stop, err = c.ACME.open(ctx, plain, c.Logger)
	case c.TLS.Certificate != "":
		f.http.TLSConfig, err = c.TLS.server(c.Logger)
	}
	if err != nil {
		return nil, err
	}
	if f.http.TLSConfig == nil {
		f.run(func() error { return f.http.Serve(Strict(c.Listener)) })
	} else {
		f.scheme = "https"
		inside := secured(c.Listener, f.http, c.Logger)
		f.run(func() error { return f.http.Serve(inside) })
	}
	if c.Private != nil {
		f.run(func() error { return f.http.Serve(Strict(c.Private)) })
	}
	if c.Redirect != nil {
		f.redirect = &http.Server{Handler: EndConnection(f.counted(plain)), ReadHeaderTimeout: c.HTTP.ReadHeaderTimeout, ReadTimeout: 10 * time.Second,
			WriteTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second, MaxHeaderBytes: c.HTTP.MaxHeaderBytes, ErrorLog: c.HTTP.ErrorLog, ConnContext: f.conns.begin, ConnState: f.conns.changed}
		f.run(func() error { return f.redirect.Serve(Strict(c.Redirect)) })
	}
	return f, nil
}

func (f *Front) run(serve func() error) {
	f.serving.Go(func() { f.served <- serve() })
}

// Scheme returns the scheme of the server's URLs: http or https.
func (f *Front) Scheme() string { return f.scheme }

// CertificateExpires returns when the certificate for a domain expires; zero without one.
func (f *Front) CertificateExpires(domain string) time.Time {
	if cert := f.certificate(domain); cert != nil {
		return cert.Leaf.NotAfter
	}
	return time.Time{}
}

// PrivateCA reports whether the certificate for a domain is signed by an authority that this
// system does not know.
func (f *Front) PrivateCA(domain string) bool {
	cert := f.certificate(domain)
	known, err := x509.SystemCertPool()
	if cert == nil || err != nil || known.Equal(x509.NewCertPool()) { // without any, nothing is known
		return false
	}
	between := x509.NewCertPool()
	for _, raw := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(raw); err == nil {
			between.AddCert(c)
		}
	}
	_, err = cert.Leaf.Verify(x509.VerifyOptions{Intermediates: between, Roots: known, CurrentTime: cert.Leaf.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return errors.As(err, new(x509.UnknownAuthorityError))
}

// certificate returns the certificate for a domain; nil without one.
func (f *Front) certificate(domain string) *tls.Certificate {
	if f.http.TLSConfig == nil || f.http.TLSConfig.GetCertificate == nil {
		return nil
	}
	cert, err := f.http.TLSConfig.GetCertificate(&tls.ClientHelloInfo{ServerName: domain, SupportedVersions: []uint16{tls.VersionTLS13},
		CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256, tls.PSSWithSHA256}})
	if err != nil || cert == nil || cert.Leaf == nil {
		return nil
	}
	return cert
}

// Handle sets the handler of all requests.
func (f *Front) Handle(h http.Handler) {
	first := f.handler.Swap(&h) == nil
	if first {
		close(f.ready)
	}
}

// Failed returns a channel that receives the error of a listener that failed.
func (f *Front) Failed() <-chan error { return f.served }

// Drain makes /readyz fail, so that load balancers send requests elsewhere.
func (f *Front) Drain() { f.draining.Store(true) }

// Shutdown stops accepting connections, calls quiesce to end long requests, and waits for the
// active ones. When ctx ends first they are cut off.
func (f *Front) Shutdown(ctx context.Context, quiesce func()) error {
	f.Drain()
	f.closeSockets()
	finished := make(chan error, 1)
	go func() {
		// net/http drops what it reads once it shuts down, even the first request of a connection
		// that it had already accepted.
		f.conns.wait(ctx)
		err := f.http.Shutdown(ctx)
		if errors.Is(err, net.ErrClosed) {
			err = nil // it closes the sockets a second time
		}
		finished <- err
	}()
	quiesce()
	return <-finished
}

func (f *Front) closeSockets() {
	for _, l := range f.sockets {
		_ = l.Close()
	}
}

// Close closes everything that Shutdown has not.
func (f *Front) Close() error {
	f.closeSockets()
	err := f.http.Close()
	if f.redirect != nil {
		err = errors.Join(err, f.redirect.Close())
	}
	f.serving.Wait()
	for left := len(f.served); left > 0; left-- { // except those that Failed has reported
		if why := <-f.served; !errors.Is(why, http.ErrServerClosed) && !errors.Is(why, net.ErrClosed) {
			err = errors.Join(err, why)
		}
	}
	f.stop()
	if errors.Is(err, net.ErrClosed) {
		return nil // closes the sockets a second time
	}
	return err
}

// minimum is the lowest TLS version that is accepted.
const minimum = tls.VersionTLS12
