package guard

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the addresses of the reverse proxies whose X-Forwarded-For and
// X-Forwarded-Proto are believed, as networks without host bits. The zero value believes
// none.
type Proxies []netip.Prefix

// maxHops bounds how much of an X-Forwarded-For is read, from its end.
const maxHops = 16

// Client is the address that a request came from. X-Forwarded-For counts only
// when the peer is a trusted proxy, and is read from its end: each proxy appends
// whom it saw, so everything before the last address that is not a trusted
// proxy's may have been made up by the client.
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
			return client // not an address: what is before it means nothing
		}
		client = hop.Unmap().WithZone("").String()
		if i < 0 || !p.trusts(client) {
			return client
		}
		rest = rest[:i]
	}
	return client
}

// OverTLS reports whether a caller came over TLS, to us or to a trusted proxy before us.
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
