package guard_test

import (
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/bloom-runtime/bloom/internal/guard"
)

// FuzzClientAddress: the address that a request is attributed to is the peer's, or one that a
// trusted proxy named, whatever the header contains.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range [][2]string{{"192.0.2.1:80", "203.0.113.9"}, {"10.0.0.1:80", "203.0.113.9, 10.0.0.2"}, {"[::1]:1", "::ffff:10.0.0.3, 1.2.3.4"},
		{"10.0.0.1:80", ",,,"}, {"@", "x"}, {"10.0.0.1:1", "fe80::1%eth0"}, {"10.0.0.1:1", "1.2.3.4:5"}} {
		f.Add(seed[0], seed[1], seed[1])
	}
	trusted := netip.MustParsePrefix("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, peer, first, second string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = peer
		alone := guard.Proxies(nil).Client(r) // without the header
		r.Header["X-Forwarded-For"] = []string{first, second}
		got := guard.Proxies{trusted}.Client(r)
		if got != alone {
			from, err := netip.ParseAddr(alone)
			if err != nil || !trusted.Contains(from.Unmap().WithZone("")) {
				t.Fatalf("%q is taken for %q on the word of a proxy that is not trusted", peer, got)
			}
			if _, err := netip.ParseAddr(got); err != nil {
				t.Fatalf("%q is no address", got)
			}
		}
		if network := guard.Network(got); len(network) > max(len(got), 45) {
			t.Fatalf("%q belongs to %q", got, network)
		}
	})
}
