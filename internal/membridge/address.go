package membridge

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

type hostKey struct{}

// withHost stores the host by which the caller reached the server.
func withHost(r *http.Request) *http.Request {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return r.WithContext(context.WithValue(r.Context(), hostKey{}, strings.Trim(host, "[]")))
}

// SetRuntimeURL changes the runtime's URL that agents are given; see Config.RuntimeURL.
func (s *Server) SetRuntimeURL(address string) { s.runtime.Store(&address) }

// runtimeFor returns the runtime's URL for the caller. Part of it comes from the caller's own Host
// header, with which a caller can mislead only itself.
func (s *Server) runtimeFor(ctx context.Context) string {
	address := *s.runtime.Load()
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err != nil || !ip.IsUnspecified() {
		return address
	}
	host, _ := ctx.Value(hostKey{}).(string)
	if host == "" {
		return ""
	}
	if port := u.Port(); port != "" {
		u.Host = net.JoinHostPort(host, port)
		return u.String()
	}
	u.Host = strings.TrimSuffix(net.JoinHostPort(host, ""), ":") // brackets an IPv6 address
	return u.String()
}
