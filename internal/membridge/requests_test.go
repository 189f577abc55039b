package membridge_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

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
		// One byte too long: the server reads that far, so that no sender is cut off.
		{"a body too large", "POST", "/agents", `{"name":"a","os_info":"` + strings.Repeat("x", 1<<20-24) + `"}`, 413, ""},
		{"a deep body", "POST", "/agents", `{"name":"a","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, 400, "the body nests deeper than 64 levels or has more than 20000 values"},
		{"a wait too long", "POST", "/agents/a/heartbeat", `{"wait_sec":61}`, 400, "wait_sec: must be at most 60"},
	} {
		a := p.do(t, c.method, c.path, c.body)
		isProblem(t, c.name, a)
		if a.status != c.status || !strings.Contains(string(a.body), c.says) || strings.Contains(string(a.body), "secret-value") {
			t.Errorf("%s: %d %.200s", c.name, a.status, a.body)
		}
	}
}

func isProblem(t *testing.T, what string, a answer) {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(a.body, &body); err != nil || len(body) != 1 || body["detail"] == nil || body["detail"] == "" {
		t.Errorf("%s: %d %s is not {\"detail\": …}", what, a.status, a.body)
	}
}

// TestEveryChangingRequestRefusesWhatItDoesNotKnow walks the policies, so that a new route is tried,
// too. Only what agents report may have unknown fields.
func TestEveryChangingRequestRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.want(t, 201, "POST", "/agents", `{"name":"a"}`)
	p.want(t, 201, "POST", "/projects", `{"name":"a"}`)
	for route := range policies {
		method, path, _ := strings.Cut(route, " ")
		if method == "GET" {
			continue
		}
		path = strings.NewReplacer("{name}", "a", "{cid}", registry.CanonicalID("a")).Replace(path)
		a := p.do(t, method, path+"?no_such=1", `{"name":"a","node_id":"n","canonical_id":"c"}`)
		if isProblem(t, route, a); a.status != 400 || !strings.Contains(string(a.body), "no_such: is not a parameter of this request") {
			t.Errorf("%s with an unknown parameter: %d %s", route, a.status, a.body)
		}
		if method == "POST" && strings.HasPrefix(path, "/agent") && !strings.HasSuffix(path, "/drain") {
			continue
		}
		a = p.do(t, method, path, `{"name":"b","project":"a","agent":"a","primary_node_id":"n","no_such":1}`)
		if isProblem(t, route, a); a.status != 400 || !strings.Contains(string(a.body), "no_such: is not a field of this request") {
			t.Errorf("%s with an unknown field: %d %s", route, a.status, a.body)
		}
	}
	if agent := p.want(t, 200, "GET", "/agents", "").list(t)[0]; agent["draining"] == true {
		t.Error("a misspelt request to undrain drained the agent")
	}
}

func TestUnknownFieldsAndUnusualTextAreAcceptedOfAgents(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.want(t, 201, "POST", "/agents", `{"name":"a\ud800","whatever":{"x":1},"os_info":"\u0000"}`)
	if got := p.want(t, 200, "GET", "/agents", "").list(t)[0]["name"]; got != "a�" {
		t.Errorf("name: %q", got)
	}
}

func TestAnyAcceptHeaderIsAccepted(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, accept := range []string{"application/json;,text/html", "a;,", ";", "text/plain"} {
		if a := p.as(t, http.Header{"Accept": {accept}}, "GET", "/health", ""); a.status != 200 {
			t.Errorf("Accept: %s: %d %s", accept, a.status, a.body)
		}
	}
}

func FuzzRequestBodies(f *testing.F) {
	for _, body := range []string{manualBody, `{}`, `[]`, `null`, `{"name":"\u0000"}`, `{"name":"a","held":[null]}`, `{"wait_sec":-1}`,
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

// FuzzHeadersAndQueries puts one text in every part of a request that is parsed, except the body:
// query, headers, path segments. Without a key nothing is admitted.
func FuzzHeadersAndQueries(f *testing.F) {
	for _, seed := range []string{"", "limit=-1&project=x", "limit=1e3", "wait_sec=NaN", "bearer x", "127.0.0.1, ::1%eth0", "https://evil.example", "%zz", "../..", "a;b", strings.Repeat("9", 400)} {
		f.Add(seed)
	}
	p := start(f, func(c *membridge.Config) {
		c.Proxies = guard.Proxies{netip.MustParsePrefix("192.0.2.0/24")} // the addresses of httptest's requests
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
