// Package front is what a server answers on: its sockets, TLS, the redirect from
// plain HTTP, and the times when there is no handler yet or none any more. It knows
// nothing of what is served.
package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how to answer.
type Config struct {
	// Listener takes the requests; Open closes it when it fails.
	Listener net.Listener
	// HTTP is the server to use, without a handler.
	HTTP *http.Server
	// TLS are the files of the certificate, ACME where to get one instead. Without
	// either the listener speaks plain HTTP.
	TLS  Files
	ACME ACME
	// Redirect, which may be nil, takes plain HTTP and sends browsers to https.
	Redirect net.Listener
	// Private, which may be nil, takes plain HTTP as if it were the listener.
	Private net.Listener
	// Starting is how long a request waits for the handler before it is refused;
	// 0 means DefaultStarting.
	Starting time.Duration
	// MaxConnections bounds the connections that are kept open; 0 means three quarters
	// of the files that the process may open, at most 50,000.
	MaxConnections int
	Logger         *slog.Logger
}

// DefaultStarting outlasts an ordinary start, and no proxy's patience.
const DefaultStarting = 30 * time.Second

// Front answers requests. From Open on connections are taken; requests other than
// for health wait until there is a handler.
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

// Open starts to answer. A certificate that cannot be used is an error: it never
// falls back to plain HTTP.
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

// Scheme is what addresses begin with: http or https.
func (f *Front) Scheme() string { return f.scheme }

// CertificateExpires is when the certificate for a domain ends; zero without one.
func (f *Front) CertificateExpires(domain string) time.Time {
	if f.http.TLSConfig == nil || f.http.TLSConfig.GetCertificate == nil {
		return time.Time{}
	}
	cert, err := f.http.TLSConfig.GetCertificate(&tls.ClientHelloInfo{ServerName: domain, SupportedVersions: []uint16{tls.VersionTLS13},
		CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256, tls.PSSWithSHA256}})
	if err != nil || cert == nil || cert.Leaf == nil {
		return time.Time{}
	}
	return cert.Leaf.NotAfter
}

// Handle has h answer from now on.
func (f *Front) Handle(h http.Handler) {
	first := f.handler.Swap(&h) == nil
	if first {
		close(f.ready)
	}
}

// Failed gets the error of a listener that has stopped by itself.
func (f *Front) Failed() <-chan error { return f.served }

// Drain makes /readyz fail, so that load balancers send requests elsewhere.
func (f *Front) Drain() { f.draining.Store(true) }

// Shutdown takes no more connections and waits for the requests under way, which
// quiesce tells to end soon. When ctx ends first they are cut.
func (f *Front) Shutdown(ctx context.Context, quiesce func()) error {
	f.Drain()
	f.closeSockets()
	finished := make(chan error, 1)
	go func() {
		// net/http drops what it reads once it shuts down, even the first request of a
		// connection that it had taken before.
		f.conns.wait(ctx)
		finished <- f.http.Shutdown(ctx)
	}()
	quiesce()
	return <-finished
}

func (f *Front) closeSockets() {
	for _, l := range f.sockets {
		_ = l.Close()
	}
}

// Close ends everything that Shutdown has not.
func (f *Front) Close() error {
	f.closeSockets()
	err := f.http.Close()
	if f.redirect != nil {
		err = errors.Join(err, f.redirect.Close())
	}
	f.serving.Wait()
	for left := len(f.served); left > 0; left-- { // none of those that Failed has reported
		if why := <-f.served; !errors.Is(why, http.ErrServerClosed) && !errors.Is(why, net.ErrClosed) {
			err = errors.Join(err, why)
		}
	}
	f.stop()
	if errors.Is(err, net.ErrClosed) {
		return nil // the sockets, a second time
	}
	return err
}

// serve answers for the handler while there is none, or none for new work.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	if r.TLS != nil {
		// A year: browsers never try plain HTTP again. Subdomains are others' business.
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
	if f.draining.Load() {
		w.Header().Set("Connection", "close") // the next request goes to another server
		if r.URL.Path == "/readyz" {
			unavailable(w, "draining")
			return
		}
	}
	h := f.handler.Load()
	if h == nil {
		if h = f.await(r); h == nil {
			unavailable(w, "starting")
			return
		}
	}
	(*h).ServeHTTP(w, r)
}

// counted has h answer, and its requests count as under way.
func (f *Front) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer f.conns.request(r)()
		overTLS(r)
		h.ServeHTTP(w, r)
	})
}

// await waits for the handler; nil for questions after health, and when it takes
// too long.
func (f *Front) await(r *http.Request) *http.Handler {
	switch r.URL.Path {
	case "/readyz", "/health", "/healthz", "/api/runtime/health":
		return nil
	}
	patience := time.NewTimer(f.starting)
	defer patience.Stop()
	select {
	case <-f.ready:
		return f.handler.Load()
	case <-patience.C:
	case <-r.Context().Done():
	}
	return nil
}

// unavailable is an answer of the form that all failures have, with the status
// that health shows.
func unavailable(w http.ResponseWriter, status string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintf(w, `{"error":"The server is %s; try again soon","code":"unavailable","status":%q}`+"\n", status, status)
}

// toHTTPS sends whoever only reads to the same address under https. A request that
// would change something has shown its key to the network: it is refused, so that
// its sender is corrected.
func (f *Front) toHTTPS(secure net.Addr) http.HandlerFunc {
	_, port, err := net.SplitHostPort(secure.String())
	if err != nil || port == "443" {
		port = ""
	}
	return func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if host == "" || r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintln(w, `{"error":"This server takes requests over https only; replace a key that was sent without it","code":"https_required"}`)
			return
		}
		if port != "" {
			host = net.JoinHostPort(host, port)
		}
		w.Header().Set("Location", "https://"+host+r.URL.RequestURI())
		w.WriteHeader(http.StatusPermanentRedirect)
	}
}

// minimum is the oldest TLS that is spoken.
const minimum = tls.VersionTLS12
