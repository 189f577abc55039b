package membridge_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/membridge"
)

// policies is the decision about every route, written down a second time: a new route
// without a line here fails, and so does a policy that somebody changes.
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

// everyCaller is a caller of each kind: what it shows, and what it is let in to besides
// the open routes. Keys are revoked by a start with others.
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
			want := 0 // passes
			switch {
			case policy == "open" || strings.Contains(admitted[who], policy):
			case who == "agent key":
				want = 403
			default:
				want = 401
			}
			// Nothing that passes does any harm: the names are unknown, the bodies empty.
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

// The description says of each operation which keys open it, as the policies do.
func TestTheDescriptionTellsThePolicies(t *testing.T) {
	t.Parallel()
	want := map[string]string{"open": `[{}]`, "agent": `[{"admin":[]},{"agent":[],"token":[]},{"agent":[]}]`, "admin": `[{"admin":[]}]`}
	p := start(t)
	described := 0
	for path, item := range p.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "DELETE": item.Delete, "PUT": item.Put, "PATCH": item.Patch} {
			if op == nil {
				continue
			}
			described++
			got, err := json.Marshal(op.Security)
			if policy := policies[method+" "+path]; err != nil || string(got) != want[policy] {
				t.Errorf("%s %s is described as %s, and is %q", method, path, got, policy)
			}
		}
	}
	if described < 18 {
		t.Errorf("only %d operations are described", described)
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

func isProblem(t *testing.T, what string, a answer) {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(a.body, &body); err != nil || len(body) != 1 || body["detail"] == nil || body["detail"] == "" {
		t.Errorf("%s: %d %s is not {\"detail\": …}", what, a.status, a.body)
	}
}

func TestWithoutAnAdminKeyTheServerRefuses(t *testing.T) {
	t.Parallel()
	p := start(t, func(c *membridge.Config) { c.AdminKey = "" })
	a := p.as(t, nil, "GET", "/agents", "")
	if a.status != 500 || !strings.Contains(string(a.body), `"MEMBRIDGE_ADMIN_KEY not configured on server"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := p.as(t, nil, "GET", "/health", ""); a.status != 200 {
		t.Errorf("health: %d %s", a.status, a.body)
	}
}

func TestDevelopmentModeAnswersOnlyThisMachine(t *testing.T) {
	t.Parallel()
	p := start(t, func(c *membridge.Config) { c.AdminKey, c.AgentKey, c.Development = "", "", true })
	_, port, _ := strings.Cut(strings.TrimPrefix(p.url, "http://"), ":")
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"a direct request":              {nil, 200},
		"by the name localhost":         {http.Header{"Host": {"localhost:" + port}}, 200},
		"by another port":               {http.Header{"Host": {"localhost:1"}}, 403},
		"by another name":               {http.Header{"Host": {"evil.example"}}, 403},
		"through a proxy":               {http.Header{"X-Forwarded-For": {"127.0.0.1"}}, 403},
		"through a proxy of RFC 7239":   {http.Header{"Forwarded": {"for=127.0.0.1"}}, 403},
		"a page of another origin":      {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Method": {"POST"}}, 403},
		"with a wrong key, which is no": {http.Header{membridge.AdminHeader: {"whatever"}}, 200},
	} {
		method, body := "GET", ""
		if c.header.Get("Method") != "" {
			method, body = "POST", `{"name":"x"}`
		}
		if a := p.as(t, c.header, method, "/projects", body); a.status != c.status {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

func TestWithAnAgentKeyAloneNoKeyIsStrongerThanIt(t *testing.T) {
	t.Parallel()
	p := start(t, func(c *membridge.Config) { c.AdminKey, c.Development = "", true })
	agent := http.Header{membridge.AgentHeader: {agentKey}}
	for _, c := range []struct {
		what, method, path string
		header             http.Header
		status             int
	}{
		{"the agents without a key", "GET", "/agents", nil, 500},
		{"a registration without a key", "POST", "/agents", nil, 500},
		{"the agents with the agent key", "GET", "/agents", agent, 403},
		{"a registration with the agent key", "POST", "/agents", agent, 201},
	} {
		body := ""
		if c.method == "POST" {
			body = `{"name":"x"}`
		}
		if a := p.as(t, c.header, c.method, c.path, body); a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.what, a.status, a.body, c.status)
		}
	}
}

func TestWeakKeysAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]membridge.Config{
		"short admin key": {AdminKey: "short", DatabasePath: "x"},
		"short agent key": {AgentKey: "short", DatabasePath: "x"},
		"one key for all": {AdminKey: adminKey, AgentKey: adminKey, DatabasePath: "x"},
		"no database":     {AdminKey: adminKey},
	} {
		if s, err := membridge.Open(t.Context(), cfg); err == nil {
			s.Close()
			t.Errorf("%s was taken", name)
		} else if strings.Contains(err.Error(), adminKey) {
			t.Errorf("%s: the error shows the key", name)
		}
	}
}

func TestEveryFailureHasTheSameShape(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"no such path", "GET", "/nope", "", 404, "Not Found"},
		{"no such method", "PUT", "/agents", "", 405, "Method Not Allowed"},
		{"no JSON", "POST", "/agents", `{"name":`, 400, "the body is not valid JSON"},
		{"another kind of no JSON", "POST", "/agents", `name=x`, 400, `"the body is not valid JSON"`},
		{"empty body", "POST", "/agents", ``, 400, "request body is required"},
		{"an array", "POST", "/agents", `[]`, 400, "the body must be an object"},
		{"a number too large", "POST", "/agents", `{"name":"a","obs_count":1e30}`, 400, `"obs_count: must be a value of a size that can be kept"`},
		{"no name", "POST", "/agents", `{}`, 400, "name"},
		{"an empty name", "POST", "/agents", `{"name":""}`, 400, "name"},
		{"a blank name", "POST", "/agents", `{"name":"  "}`, 400, "name"},
		{"a long name", "POST", "/agents", `{"name":"` + strings.Repeat("x", 129) + `"}`, 400, "name: must have at most 128 characters"},
		{"a wrong type", "POST", "/agents", `{"name":"secret-value","capabilities":{"max_concurrency":"many"}}`, 400, "max_concurrency"},
		{"too many at once", "POST", "/agents", `{"name":"a","capabilities":{"max_concurrency":33}}`, 400, "max_concurrency"},
		{"too few at once, in our words", "POST", "/agents", `{"name":"a","capabilities":{"max_concurrency":0}}`, 400, "capabilities.max_concurrency: must be at least 1"},
		{"a name of one dot", "POST", "/agents", `{"name":"."}`, 400, "name: must not be ."},
		{"a name of two dots", "POST", "/projects", `{"name":" .. "}`, 400, "name: must not be ."},
		{"a name with a NUL", "POST", "/projects", `{"name":"a\u0000"}`, 400, "name: must not contain control characters"},
		{"a name with a slash", "POST", "/agents", `{"name":"a/b"}`, 400, "name: must not contain a slash"},
		{"a lease longer than a year", "POST", "/projects/c/leadership/select", `{"primary_node_id":"n","lease_seconds":31536001}`, 400, "lease_seconds: must be at most 31536000"},
		{"no node", "POST", "/agent/heartbeat", `{"canonical_id":"c"}`, 400, "node_id must be given"},
		{"an empty node", "POST", "/agent/heartbeat", `{"node_id":"","canonical_id":"c"}`, 400, "node_id: must not be empty"},
		{"an odd limit", "GET", "/jobs?limit=many", "", 400, `"limit: invalid integer"`},
		{"an odd status", "POST", "/agents", `{"name":"a","status":"fine"}`, 400, "status: must be one of"},
		{"an odd URL", "POST", "/agents", `{"name":"a","url":"file:///etc/passwd"}`, 400, "url"},
		// By one byte: the server reads that far, so that nobody is cut off while sending.
		{"a body too large", "POST", "/agents", `{"name":"a","os_info":"` + strings.Repeat("x", 1<<20-24) + `"}`, 413, ""},
		{"a deep body", "POST", "/agents", `{"name":"a","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, 400, "the body nests deeper than 64 levels"},
		{"a wait too long", "POST", "/agents/a/heartbeat", `{"wait_sec":61}`, 400, "wait_sec: must be at most 60"},
	} {
		a := p.do(t, c.method, c.path, c.body)
		isProblem(t, c.name, a)
		if a.status != c.status || !strings.Contains(string(a.body), c.says) || strings.Contains(string(a.body), "secret-value") {
			t.Errorf("%s: %d %.200s", c.name, a.status, a.body)
		}
	}
}

func TestTheAPIIsDescribedAndItsPageNeedsNobodyElse(t *testing.T) {
	t.Parallel()
	p := start(t)
	var spec map[string]any
	a := p.as(t, nil, "GET", "/openapi.json", "")
	if err := json.Unmarshal(a.body, &spec); err != nil || !strings.HasPrefix(spec["openapi"].(string), "3.1") || strings.Contains(string(a.body), "ErrorModel") {
		t.Errorf("%d %.300s", a.status, a.body)
	}
	docs := p.as(t, nil, "GET", "/docs", "")
	if docs.status != 200 || strings.Contains(string(docs.body), "//") && strings.Contains(string(docs.body), "http") {
		t.Errorf("%d: the page leads elsewhere", docs.status)
	}
}

func TestARegistrationsAnswersAreDescribed(t *testing.T) {
	t.Parallel()
	p := start(t)
	var spec struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct {
					Schema map[string]any `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(p.as(t, nil, "GET", "/openapi.json", "").body, &spec); err != nil {
		t.Fatal(err)
	}
	described := spec.Paths["/agents"]["post"].Responses
	for range 2 {
		a := p.do(t, "POST", "/agents", `{"name":"a"}`)
		if got := described[strconv.Itoa(a.status)]; len(got.Content["application/json"].Schema) == 0 {
			t.Errorf("%d is described as %v", a.status, got)
		}
	}
}

func TestUnknownFieldsAndStrangeTextAreTaken(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.want(t, 201, "POST", "/agents", `{"name":"a\ud800","whatever":{"x":1},"os_info":"\u0000"}`)
	if got := p.want(t, 200, "GET", "/agents", "").list(t)[0]["name"]; got != "a�" {
		t.Errorf("name: %q", got)
	}
}

func FuzzRequestBodies(f *testing.F) {
	for _, body := range []string{seedBody, `{}`, `[]`, `null`, `{"name":"\u0000"}`, `{"name":"a","held":[null]}`, `{"wait_sec":-1}`,
		`{"node_id":"n","canonical_id":"c","last_seen":{}}`, `{"primary_node_id":"n","lease_seconds":1e99}`, `{"project":"p","agent":"a"}`} {
		f.Add(body)
	}
	p := start(f)
	paths := []string{"/agents", "/agents/a/heartbeat", "/agents/a/drain", "/projects", "/agent/heartbeat", "/projects/c/leadership/select", "/sync/push", "/sync/pull"}
	p.Quiesce() // no heartbeat may wait
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range paths {
			a := p.do(t, "POST", path, body)
			if a.status == 500 || !json.Valid(a.body) {
				t.Errorf("%s %q: %d %s", path, body, a.status, a.body)
			}
			if a.status >= 400 {
				isProblem(t, path, a)
			}
		}
	})
}

// FuzzHeadersAndQueries puts one text in everything of a request that is parsed and is
// no body: query, headers, parts of the path. Nobody gets in who does not send a key.
func FuzzHeadersAndQueries(f *testing.F) {
	for _, seed := range []string{"", "limit=-1&project=x", "limit=1e3", "wait_sec=NaN", "bearer x", "127.0.0.1, ::1%eth0", "https://evil.example", "%zz", "../..", "a;b", strings.Repeat("9", 400)} {
		f.Add(seed)
	}
	p := start(f, func(c *membridge.Config) {
		c.Proxies = guard.Proxies{netip.MustParsePrefix("192.0.2.0/24")} // where httptest's requests come from
		c.Limits = membridge.Limits{Address: 1 << 20, Admin: 1 << 20, Agent: 1 << 20}
	})
	p.Quiesce() // no heartbeat may wait
	f.Fuzz(func(t *testing.T, text string) {
		for route, policy := range policies {
			method, path, _ := strings.Cut(route, " ")
			req := httptest.NewRequest(method, path, nil)
			req.URL.RawQuery = text
			req.URL.Path = strings.NewReplacer("{name}", text, "{cid}", text, "{id}", text).Replace(path)
			for _, name := range []string{membridge.AdminHeader, membridge.AgentHeader, membridge.TokenHeader, "Authorization", "X-Forwarded-For", "Forwarded", "Origin", "Sec-Fetch-Site", "Accept", "Content-Type"} {
				req.Header.Set(name, text)
			}
			for _, key := range []string{"", adminKey} {
				if key != "" {
					req.Header.Set(membridge.AdminHeader, key)
				}
				w := httptest.NewRecorder()
				p.Handler().ServeHTTP(w, req.Clone(t.Context()))
				if w.Code == 500 || key == "" && policy != "open" && w.Code < 300 {
					t.Fatalf("%s %q with key %q: %d %s", route, text, key, w.Code, w.Body)
				}
				if w.Code >= 400 {
					isProblem(t, route, answer{w.Code, w.Body.Bytes(), w.Header()})
				}
			}
		}
	})
}

// A type that JSON Schema does not know breaks the generators of clients.
func TestEveryDescribedTypeIsOne(t *testing.T) {
	t.Parallel()
	p := start(t)
	var spec any
	if err := json.Unmarshal(p.as(t, nil, "GET", "/openapi.json", "").body, &spec); err != nil {
		t.Fatal(err)
	}
	known := []any{"string", "number", "integer", "boolean", "object", "array", "null"}
	found := 0
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			types, some := node["type"].([]any)
			if one, is := node["type"].(string); is {
				types, some = []any{one}, true
			}
			for _, name := range types {
				found++
				if some && !slices.Contains(known, name) {
					t.Errorf("%s has the type %q", path, name)
				}
			}
			for name, child := range node {
				if name != "securitySchemes" { // their types are others
					walk(path+"/"+name, child)
				}
			}
		case []any:
			for _, child := range node {
				walk(path, child)
			}
		}
	}
	walk("", spec)
	if found < 50 {
		t.Fatalf("only %d types are described", found)
	}
}
