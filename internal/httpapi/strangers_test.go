package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

func TestDevelopmentModeRefusesADetectableProxy(t *testing.T) {
	t.Parallel()
	r := newFixture(t, noKeys)
	r.key = ""
	r.call(200, nil, "GET", "/stats", "")
	r.fails(401, "unauthorized", "GET", "/stats", "", "Via", "1.1 proxy")
	target, err := url.Parse(r.url)
	must(t, err)
	// A proxy like nginx with only "proxy_set_header Host $http_host": it forwards the Host and
	// does not identify itself.
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Scheme, p.Out.URL.Host = target.Scheme, target.Host
	}, Transport: r.client.Transport})
	defer proxy.Close()
	for _, host := range []string{"", "localhost", "127.0.0.1"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", proxy.URL+"/api/runtime/stats", nil)
		must(t, err)
		req.Host = host
		res, err := r.client.Do(req)
		must(t, err)
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("through a proxy with Host %q: %d", host, res.StatusCode)
		}
	}
}

func TestStrangersFillNoMoreOfTheAuditThanTheirLimit(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		h.Proxies = guard.Proxies{netip.MustParsePrefix("127.0.0.0/8")}
	})
	r.key = ""
	for i := range 60 {
		r.call(200, nil, "POST", "/test-connection", "", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
	}
	r.key = adminKey
	r.call(200, nil, "POST", "/test-connection", "")
	var entries []bloom.Audit
	r.call(200, &entries, "GET", "/audit?action=connection_test&limit=1000", "")
	if len(entries) < 15 || len(entries) > 25 || entries[0].Actor != "admin" {
		t.Errorf("%d entries, the last by %s", len(entries), entries[0].Actor)
	}
}
