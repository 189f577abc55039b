package membridge_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/membridge"
)

// policies repeats the decision for every route: a new route without a line here fails, and so does
// a changed policy.
var policies = map[string]string{
	"GET /health":         "open",
	"GET /docs":           "open",
	"GET /openapi.json":   "open",
	"GET /ui":             "open",
	"GET /static/ui.html": "open",

	"POST /agents":                  "agent",
	"POST /agents/{name}/heartbeat": "agent",
	"POST /agent/heartbeat":         "agent",

	"GET /agents":                            "admin",
	"DELETE /agents/{name}":                  "admin",
	"POST /agents/{name}/drain":              "admin",
	"GET /projects":                          "admin",
	"POST /projects":                         "admin",
	"DELETE /projects/{name}":                "admin",
	"GET /projects/{cid}/nodes":              "admin",
	"GET /projects/{cid}/leadership":         "admin",
	"GET /projects/{cid}/leadership/history": "admin",
	"POST /projects/{cid}/leadership/select": "admin",
	"POST /sync/push":                        "admin",
	"POST /sync/pull":                        "admin",
	"GET /jobs":                              "admin",
	"GET /jobs/{id}":                         "admin",
	"GET /metrics":                           "admin",
}

// everyCaller returns a caller of each kind: its headers, and what it may use besides the open
// routes. Keys are revoked by a restart with others.
func everyCaller(t *testing.T) (p *plane, callers map[string]http.Header, admitted map[string]string) {
	const oldAdmin, oldAgent = "admin-key-that-was-replaced", "agent-key-that-was-replaced"
	before := start(t, func(c *membridge.Config) { c.AdminKey, c.AgentKey = oldAdmin, oldAgent })
	before.wantAs(t, http.Header{membridge.AdminHeader: {oldAdmin}}, 200, "GET", "/agents")
	before.Close()
	p = start(t, func(c *membridge.Config) { c.DatabasePath, c.RuntimeURL = before.cfg.DatabasePath, "" })
	one := func(name, key string) http.Header { return http.Header{name: {key}} }
	return p, map[string]http.Header{
			"admin key": one(membridge.AdminHeader, adminKey), "admin key as a bearer": one("Authorization", "Bearer "+adminKey),
			"agent key": one(membridge.AgentHeader, agentKey),
			"no key":    {}, "wrong key": one(membridge.AdminHeader, "not-the-key-of-this-server"), "wrong agent key": one(membridge.AgentHeader, "not-the-key-of-this-server"),
			"keys swapped":      {membridge.AdminHeader: {agentKey}, membridge.AgentHeader: {adminKey}},
			"revoked admin key": one(membridge.AdminHeader, oldAdmin), "revoked agent key": one(membridge.AgentHeader, oldAgent),
		}, map[string]string{
			"admin key": "open agent admin", "admin key as a bearer": "open agent admin", "agent key": "open agent",
		}
}

func (p *plane) wantAs(t *testing.T, header http.Header, status int, method, path string) {
	t.Helper()
	if a := p.as(t, header, method, path, ""); a.status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
}

func TestEveryRouteWithEveryKey(t *testing.T) {
	t.Parallel()
	p, callers, admitted := everyCaller(t)
	for route := range p.Policies() {
		policy, decided := policies[route]
		if !decided {
			t.Errorf("%s: nobody has decided whom it admits", route)
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{name}", "x", "{cid}", "x", "{id}", "x").Replace(path)
		for who, header := range callers {
			want := 0 // admitted
			switch {
			case policy == "open" || strings.Contains(admitted[who], policy):
			case who == "agent key":
				want = 403
			default:
				want = 401
			}
			// Admitted requests change nothing: the names are unknown, the bodies empty.
			a := p.as(t, header, method, path, "")
			refused := a.status == 401 || a.status == 403
			if (want != 0 && a.status != want) || (want == 0 && refused) {
				t.Errorf("%s with %s: %d %s, want %d", route, who, a.status, a.body, want)
			}
			if a.status >= 400 {
				isProblem(t, route, a)
			}
		}
	}
	for route := range policies {
		if _, there := p.Policies()[route]; !there {
			t.Errorf("%s is decided about and does not exist", route)
		}
	}
}

func TestCallersOfMembridgeAreLimited(t *testing.T) {
	t.Parallel()
	p := start(t, func(c *membridge.Config) {
		c.Limits = membridge.Limits{Address: 5, Admin: 8, Agent: 6}
		c.Proxies = guard.Proxies{netip.MustParsePrefix("127.0.0.0/8")}
	})
	admin, agent := http.Header{membridge.AdminHeader: {adminKey}}, http.Header{membridge.AgentHeader: {agentKey}}
	from := func(address string, h http.Header) http.Header {
		h = h.Clone()
		h.Set("X-Forwarded-For", address)
		return h
	}
	exhaust := func(n int, header http.Header, method, path string) {
		t.Helper()
		for i := range n {
			if a := p.as(t, header, method, path, ""); a.status == 429 {
				t.Fatalf("request %d of %d: %s", i, n, a.body)
			}
		}
		a := p.as(t, header, method, path, "")
		isProblem(t, path, a)
		if a.status != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.header.Get("RateLimit"), ";r=0;t=") || a.header.Get("RateLimit-Policy") == "" {
			t.Fatalf("beyond the limit: %d %s, %v", a.status, a.body, a.header)
		}
	}
	exhaust(5, from("192.0.2.1", http.Header{}), "GET", "/agents")
	exhaust(5, from("192.0.2.2", http.Header{membridge.AdminHeader: {"not-the-key-of-this-server"}}), "GET", "/nothing")
	exhaust(6, from("192.0.2.1", agent), "POST", "/agent/heartbeat")
	exhaust(8, from("192.0.2.1", admin), "GET", "/agents")
	for range 20 {
		if a := p.as(t, from("192.0.2.1", http.Header{}), "GET", "/health", ""); a.status != 200 {
			t.Fatalf("a load balancer is refused: %d", a.status)
		}
	}
	if a := p.as(t, from("192.0.2.3", http.Header{}), "GET", "/agents", ""); a.status != 401 {
		t.Errorf("another address: %d %s", a.status, a.body)
	}
}
