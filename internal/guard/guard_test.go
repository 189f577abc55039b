package guard_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/guard"
)

func TestARouteWithoutAPolicyIsNotRegistered(t *testing.T) {
	t.Parallel()
	var entered []string
	mux := guard.NewMux(map[string]string{"GET /known": "policy", "GET /other": "x"}, func(policy string, h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { entered = append(entered, policy); h(w, r) }
	})
	mux.HandleFunc("GET /known", func(http.ResponseWriter, *http.Request) {})
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/known", nil))
	if len(entered) != 1 || entered[0] != "policy" || len(mux.Policies()) != 1 {
		t.Errorf("entered %v, registered %v", entered, mux.Policies())
	}
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, `"POST /known" has no policy`) {
			t.Errorf("the route was registered: %q", p)
		}
	}()
	mux.HandleFunc("POST /known", func(http.ResponseWriter, *http.Request) {})
}

func TestOnlyDirectRequestsOfThisMachineAreLocal(t *testing.T) {
	t.Parallel()
	at := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	for name, c := range map[string]struct {
		peer, host string
		local      net.Addr
		header     string
		want       bool
	}{
		"loopback":                          {"127.0.0.1:9", "127.0.0.1:5000", at(5000), "", true},
		"by name":                           {"[::1]:9", "localhost:5000", at(5000), "", true},
		"by name with a dot":                {"127.0.0.1:9", "LOCALHOST.:5000", at(5000), "", true},
		"IPv4 within IPv6":                  {"[::ffff:127.0.0.1]:9", "[::1]:5000", at(5000), "", true},
		"a unix socket":                     {"@", "localhost", nil, "", true},
		"another machine":                   {"192.0.2.1:9", "localhost:5000", at(5000), "", false},
		"another machine, by a link's name": {"[fe80::1%eth0]:9", "localhost:5000", at(5000), "", false},
		"another Host":                      {"127.0.0.1:9", "evil.example:5000", at(5000), "", false},
		"a Host that begins like ours":      {"127.0.0.1:9", "localhost.evil.example:5000", at(5000), "", false},
		"no Host":                           {"127.0.0.1:9", "", at(5000), "", false},
		"a forwarded port":                  {"127.0.0.1:9", "localhost:8080", at(5000), "", false},
		"the port of the scheme":            {"127.0.0.1:9", "localhost", at(80), "", true},
		"a proxy":                           {"127.0.0.1:9", "localhost:5000", at(5000), "X-Forwarded-For", false},
		"a proxy that forwards the host":    {"127.0.0.1:9", "localhost:5000", at(5000), "X-Forwarded-Host", false},
		"a proxy by RFC 7239":               {"127.0.0.1:9", "localhost:5000", at(5000), "Forwarded", false},
		"a proxy by RFC 9110":               {"127.0.0.1:9", "localhost:5000", at(5000), "Via", false},
		"nginx":                             {"127.0.0.1:9", "localhost:5000", at(5000), "X-Real-IP", false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		if c.header != "" {
			r.Header.Set(c.header, "x")
		}
		if c.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.local))
		}
		if got := guard.Local(r); got != c.want {
			t.Errorf("%s is local: %t", name, got)
		}
	}
}
