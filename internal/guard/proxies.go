package guard

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the networks, without host bits, of the reverse proxies whose X-Forwarded-For and
// X-Forwarded-Proto are trusted. The zero value trusts none.
type Proxies []netip.Prefix

// maxHops bounds how many entries of X-Forwarded-For are read, from the end.
const maxHops = 16

// Client returns the address that a request came from. It uses X-Forwarded-For only if the peer is
// a trusted proxy, and reads it from the end: each proxy appends the address it saw, so everything
// before the last address that is not a trusted proxy may be forged.
func (p Proxies) Client(r *http.Request) string {
	peer := peerOf(r)
	if len(p) == 0 || !p.trusts(peer) {
		return peer
	}
	client := peer
	rest := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	for range maxHops {
		i := strings.LastIndexByte(rest, ',')
		hop, err := netip.ParseAddr(strings.TrimSpace(rest[i+1:]))
		if err != nil {
			return client // not an address: entries before it are meaningless
		}
		client = hop.Unmap().WithZone("").String()
		if i < 0 || !p.trusts(client) {
			return client
		}
		rest = rest[:i]
	}
	return client
}

// OverTLS reports whether the request came over TLS, to this server or to a trusted proxy.
func (p Proxies) OverTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" && p.trusts(peerOf(r))
}

func peerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (p Proxies) trusts(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}
