package front

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// restTimeout is how long net/http may wait for the rest of a body that the handler did not read,
// which it does before it sends a short response.
const restTimeout = 2 * time.Second

// CodeHTTPSRequired is the code of an error, like those of package bloom.
const CodeHTTPSRequired = "https_required" // the request came over plain HTTP; use https, and replace the key that it carried

// serve responds when there is no handler, or the server is draining.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	if r.TLS != nil {
		// A year. Subdomains are not included: they may belong to others.
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
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTimeout))
	}
}

// counted wraps h and counts active requests per connection.
func (f *Front) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer f.conns.request(r)()
		overTLS(r)
		h.ServeHTTP(w, r)
	})
}

// await waits for the handler. It returns nil for health checks and when the wait is too long.
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

// unavailable writes an error in the API's form, with the status that health shows.
func unavailable(w http.ResponseWriter, status string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintf(w, `{"error":"The server is %s; try again soon","code":"unavailable","status":%q,"request_id":%q}`+"\n", status, status, rand.Text())
}

// toHTTPS redirects read requests to https. A request that would change something has already sent
// its key in clear text: it is refused, so that its sender is corrected.
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
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if host == "" || r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `{"error":"This server requires https; replace any key that was sent over plain http","code":%q}`+"\n", CodeHTTPSRequired)
			return
		}
		switch {
		case port != "":
			host = net.JoinHostPort(host, port)
		case strings.Contains(host, ":"): // IPv6
			host = "[" + host + "]"
		}
		w.Header().Set("Location", "https://"+host+r.URL.RequestURI())
		w.WriteHeader(http.StatusPermanentRedirect)
	}
}
