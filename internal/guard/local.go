package guard

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// Local reports whether r came directly from this machine: over loopback or a unix socket, not
// through a proxy, and with a Host header that no foreign page can have (DNS rebinding).
func Local(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			return false
		}
	}
	return localHost(r.Host) && localPeer(r.RemoteAddr) && ownPort(r)
}

// ownPort reports whether the Host header has the port on which the request arrived. A different
// port means a proxy or a forwarded port, whose callers may be elsewhere. A proxy that sends this
// server's own address as Host cannot be distinguished.
func ownPort(r *http.Request) bool {
	at, known := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !known {
		return true // a unix socket has no port
	}
	port := "80"
	if r.TLS != nil {
		port = "443"
	}
	if _, p, err := net.SplitHostPort(r.Host); err == nil {
		port = p
	}
	return port == strconv.Itoa(at.Port)
}

func localHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// localPeer trusts a peer that is not an IP address, because it is a unix socket.
func localPeer(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || ip.Unmap().IsLoopback()
}
