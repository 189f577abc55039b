package app

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/config"
)

// route sends a worker's requests to the runtime's current address, which may become known, or
// change, when membridge reports it.
type route struct {
	next http.RoundTripper

	mu    sync.Mutex
	from  *url.URL      // the client's base URL
	to    *url.URL      // the runtime's current address
	known chan struct{} // closed with the first address
}

func newRoute(secure *tls.Config) *route {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	transport.MaxIdleConnsPerHost = 128
	transport.HTTP2 = client.HTTP2()
	return &route{next: transport, known: make(chan struct{})}
}

// setAddress sends requests to address from now on. It refuses an invalid address, without an
// effect.
func (r *route) setAddress(address string) error {
	if err := config.CheckURL(address); err != nil {
		return err
	}
	u, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = u
	if r.from == nil {
		r.from = u
		close(r.known)
	}
	return nil
}

// waitForAddress waits for the first address; it returns "" when ctx ended before.
func (r *route) waitForAddress(ctx context.Context) string {
	select {
	case <-r.known:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.from.String()
	case <-ctx.Done():
		return ""
	}
}

// RoundTrip sends the request to the runtime's current address.
func (r *route) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	from, to := r.from, r.to
	r.mu.Unlock()
	if from != to {
		req = req.Clone(req.Context())
		req.Host = ""
		req.URL.Scheme, req.URL.Host = to.Scheme, to.Host
		req.URL.Path = to.Path + strings.TrimPrefix(req.URL.Path, from.Path)
		req.URL.RawPath = ""
	}
	return r.next.RoundTrip(req)
}

func (r *route) httpClient() *http.Client {
	return &http.Client{Transport: r, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func loopbackURL(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
