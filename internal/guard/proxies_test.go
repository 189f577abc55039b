package guard_test

import (
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/bloom-runtime/bloom/internal/guard"
)

func TestForwardedForCountsOnlyFromTrustedProxies(t *testing.T) {
	t.Parallel()
	trusted := guard.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		proxies   guard.Proxies
		peer      string
		forwarded []string
		want      string
	}{
		"no proxies":                            {nil, "10.0.0.1:5", []string{"203.0.113.7"}, "10.0.0.1"},
		"a stranger's word":                     {trusted, "192.0.2.1:5", []string{"203.0.113.7"}, "192.0.2.1"},
		"a proxy's word":                        {trusted, "10.0.0.1:5", []string{"203.0.113.7"}, "203.0.113.7"},
		"what the client made up":               {trusted, "10.0.0.1:5", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		"two proxies":                           {trusted, "10.0.0.1:5", []string{"198.51.100.1, 203.0.113.7, 10.9.9.9"}, "203.0.113.7"},
		"two headers":                           {trusted, "10.0.0.1:5", []string{"198.51.100.1", "203.0.113.7"}, "203.0.113.7"},
		"nothing but proxies":                   {trusted, "10.0.0.1:5", []string{"10.0.0.2, 10.0.0.3"}, "10.0.0.2"},
		"no header":                             {trusted, "10.0.0.1:5", nil, "10.0.0.1"},
		"garbage":                               {trusted, "10.0.0.1:5", []string{"203.0.113.7, <script>"}, "10.0.0.1"},
		"IPv6":                                  {trusted, "[fd00::1]:5", []string{"2001:db8::7"}, "2001:db8::7"},
		"IPv4 in IPv6":                          {trusted, "[::ffff:10.0.0.1]:5", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		"a peer that is not an IP address":      {trusted, "@", []string{"203.0.113.7"}, "@"},
		"an address that has a zone of its own": {trusted, "10.0.0.1:5", []string{"fe80::1%eth0"}, "fe80::1"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		for _, f := range c.forwarded {
			r.Header.Add("X-Forwarded-For", f)
		}
		if got := c.proxies.Client(r); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
