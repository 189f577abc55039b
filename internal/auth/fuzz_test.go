package auth_test

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/auth"
)

// FuzzClientAddress: the address that a request is attributed to is the peer's, or one
// that a trusted proxy named, whatever is in the header.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range [][2]string{{"192.0.2.1:80", "203.0.113.9"}, {"10.0.0.1:80", "203.0.113.9, 10.0.0.2"}, {"[::1]:1", "::ffff:10.0.0.3, 1.2.3.4"},
		{"10.0.0.1:80", ",,,"}, {"@", "x"}, {"10.0.0.1:1", "fe80::1%eth0"}, {"10.0.0.1:1", "1.2.3.4:5"}} {
		f.Add(seed[0], seed[1], seed[1])
	}
	trusted := netip.MustParsePrefix("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, peer, first, second string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = peer
		r.Header["X-Forwarded-For"] = []string{first, second}
		alone := auth.Proxies(nil).Client(r)
		got := auth.Proxies{trusted}.Client(r)
		if got != alone {
			from, err := netip.ParseAddr(alone)
			if err != nil || !trusted.Contains(from.Unmap().WithZone("")) {
				t.Fatalf("%q is taken for %q on the word of a proxy that is not trusted", peer, got)
			}
			if _, err := netip.ParseAddr(got); err != nil {
				t.Fatalf("%q is no address", got)
			}
		}
		if network := auth.Network(got); len(network) > max(len(got), 45) {
			t.Fatalf("%q belongs to %q", got, network)
		}
	})
}

// FuzzKeys: nobody gets in by what is almost the key.
func FuzzKeys(f *testing.F) {
	const key = "fuzzing-key-0123456789"
	a, err := auth.New(auth.Config{AdminKey: key})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{key, key[1:], "Bearer " + key, "bearer", "bearer  x", "bloom_session=v1:AAAA", "\x00"} {
		f.Add(seed, seed, seed)
	}
	f.Fuzz(func(t *testing.T, own, bearer, cookie string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["X-Runtime-Api-Key"], r.Header["Authorization"], r.Header["Cookie"] = []string{own}, []string{bearer}, []string{cookie}
		who, err := a.Authenticate(r)
		right := own == key || own == "" && strings.TrimSpace(bearer[min(7, len(bearer)):]) == key
		if (err == nil) != who.Known() || who.Known() && !right {
			t.Fatalf("%q, %q, %q is %+v: %v", own, bearer, cookie, who, err)
		}
	})
}
