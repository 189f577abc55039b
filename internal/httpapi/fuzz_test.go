package httpapi_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

// unlimited disables rate limits for a fuzzer.
var unlimited = withLimits(httpapi.Limits{Address: 1 << 30, SignIn: 1 << 30, Key: 1 << 30, Worker: 1 << 30, Registrations: 1 << 30, Streams: 1 << 10})

// fuzzBody sends bodies to a path. Every response must be a success or a complete error, and never
// a 500.
func fuzzBody(f *testing.F, path string, seeds ...string) {
	for _, s := range append(seeds, "", "null", "[]", `{"a":`, "{\"prompt\":\"\\ud800\xff\\u0000\"}", strings.Repeat("[", 80)) {
		f.Add(s)
	}
	r := newFixture(f, unlimited)
	r.worker("w1", 4)
	task := r.task("")
	l := r.lease(task.ID)
	path = strings.ReplaceAll(path, "{id}", task.ID)
	f.Fuzz(func(t *testing.T, body string) {
		req := httptest.NewRequest("POST", "/api/runtime"+path, strings.NewReader(strings.ReplaceAll(body, "LEASE", l.Lease.ID)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(auth.HeaderKey, adminKey)
		r.answersProperly(t, req)
	})
}

// answersProperly serves a request without a network. The response must be a success or a complete
// error, and never a 500.
func (r *fixture) answersProperly(t *testing.T, req *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	r.api.ServeHTTP(w, req)
	if w.Code == 500 || w.Code == 422 {
		log := r.log.String()
		t.Fatalf("status %d: %s\n%s", w.Code, w.Body, log)
	}
	if w.Code < 400 && w.Header().Get("Content-Type") != "application/json" {
		return // a stream, or nothing
	}
	if !json.Valid(w.Body.Bytes()) {
		t.Fatalf("the answer is no JSON: %q", w.Body)
	}
	if w.Code >= 400 {
		var failure httpapi.Failure
		if err := json.Unmarshal(w.Body.Bytes(), &failure); err != nil || failure.Message == "" || failure.Code == "" || failure.RequestID == "" {
			t.Fatalf("a failure without its parts: %s", w.Body)
		}
	}
}

func FuzzCreate(f *testing.F) {
	fuzzBody(f, "/llm-tasks",
		`{"context_id":"c","agent_slug":"a","prompt":"p","policy":{"timeout_sec":1},"labels":["x"],"idempotency_key":"k"}`)
}

func FuzzComplete(f *testing.F) {
	fuzzBody(f, "/llm-tasks/{id}/complete",
		`{"lease_id":"LEASE","status":"success","output":"o","metrics":{"duration_ms":1,"cost_usd":0.1}}`,
		`{"lease_id":"LEASE","status":"error","error_message":"e","retryable":true}`)
}

func FuzzClaim(f *testing.F) {
	// No wait_sec in the seeds: a fuzzer that waits finds nothing.
	fuzzBody(f, "/workers/w1/claim", `{"instance_id":"i","max":1,"held":["LEASE","x"]}`)
}

func FuzzEvents(f *testing.F) {
	fuzzBody(f, "/llm-tasks/{id}/events?lease_id=00000000-0000-7000-8000-000000000000", "{\"seq\":1,\"type\":\"t\",\"data\":{\"a\":\"\\ud800\"}}\n\n{}")
}

// FuzzOtherBodies sends a body to one of the routes with small bodies. Each execution uses a single
// route, because a body that reaches new code must be tried with it often.
func FuzzOtherBodies(f *testing.F) {
	seeds := []string{
		`{"name":"w2","capabilities":{"claude_cli":true,"max_concurrency":120.0,"labels":["x"]},"ip_addrs":["::1"]}`,
		`{"worker_id":"w1","ttl_seconds":1e3}`, `{"lease_id":"LEASE","reason":"r","not_before":1}`, `{"lease_id":"LEASE"}`,
		`{"ids":["TASK","x",""]}`, `{"drain":false}`, `{"key":"k"}`, `{"membridge_server_url":"http://127.0.0.1:1/","admin_key":"k"}`,
		`{"primary_node_id":"n","lease_seconds":1}`, "", "null", "[]", `{"a":`, strings.Repeat(`{"a":`, 80),
		`{"project":"p","agent":"a"}`, `{"name":"n","role":"worker","worker":"w1","expires_in_days":1}`, `{"status":"failed","context_id":"c","q":"x"}`,
	}
	r := newFixture(f, unlimited)
	r.worker("w1", 4)
	task := r.task("")
	l := r.lease(task.ID)
	paths := slices.DeleteFunc(r.routesOf("POST", task), func(path string) bool {
		return path == "/api/runtime/test-connection" || strings.HasSuffix(path, "/claim") || strings.HasSuffix(path, "/complete")
	})
	for i := range max(len(seeds), len(paths)) {
		f.Add(seeds[i%len(seeds)], uint8(i))
	}
	f.Fuzz(func(t *testing.T, body string, which uint8) {
		body = strings.NewReplacer("LEASE", l.Lease.ID, "TASK", task.ID).Replace(body)
		req := httptest.NewRequest("POST", paths[int(which)%len(paths)], strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(auth.HeaderKey, adminKey)
		r.answersProperly(t, req)
	})
}

// routesOf returns the paths of all routes with a method, with the ids of a task and of the worker
// w1. It leaves out those that wait.
func (r *fixture) routesOf(method string, task bloom.Task) (paths []string) {
	for route := range r.api.Policies() {
		is, path, _ := strings.Cut(route, " ")
		if is == method && path != "/api/runtime/events" && !strings.HasPrefix(path, "/docs") {
			paths = append(paths, strings.NewReplacer("/workers/{id}", "/workers/w1", "{id}", task.ID, "{cid}", "c", "{name}", "n").Replace(path))
		}
	}
	slices.Sort(paths)
	return paths
}

// FuzzPuts sends a body and a query to the routes that accept files and parts of files under a
// lease, and saved filters.
func FuzzPuts(f *testing.F) {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("x")))
	for i, seed := range [][2]string{{"x", "lease_id=LEASE&path=a/b.txt&sha256=" + sum}, {"x", "lease_id=LEASE&sha256=" + sum}, {`{"status":"failed","q":"x"}`, ""},
		{"x", "lease_id=LEASE&path=../../etc/passwd&type=T&tag=a&tag=%00"}, {"", "path=%2e%2e%2f&sha256=zz"}, {"\xff", "lease_id=LEASE&path=" + strings.Repeat("a/", 600)}} {
		f.Add(seed[0], seed[1], uint8(i))
	}
	r := newFixture(f, unlimited)
	r.worker("w1", 4)
	task := r.task("")
	l := r.lease(task.ID)
	paths := r.routesOf("PUT", task)
	if len(paths) < 4 {
		f.Fatal(paths)
	}
	f.Fuzz(func(t *testing.T, body, query string, which uint8) {
		req := httptest.NewRequest("PUT", paths[int(which)%len(paths)], strings.NewReader(body))
		req.URL.RawQuery = strings.ReplaceAll(query, "LEASE", l.Lease.ID)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(auth.HeaderKey, adminKey)
		r.answersProperly(t, req)
	})
}

// FuzzHeadersAndQueries puts one text in every part of a request that is parsed, except the body:
// query, headers, path segments. Without the key nothing is admitted.
func FuzzHeadersAndQueries(f *testing.F) {
	for i, seed := range []string{"", "1", "-1", "bearer x", "Basic YTpi", "application/json; charset=\"", "application/x-ndjson", "127.0.0.1, ::1%eth0",
		"v1:AAAA", "\"__Host-bloom=v1:A\"", "limit=1&cursor=x&preview=9999999999999999999", "%zz", "../..", "https://evil.example", strings.Repeat("9", 400),
		"q=%22a+b%22*&status=queued&agent_slug=x", "since=-1&from=1e9&to=9&step=0", "after=-9223372036854775808&limit=0", "lease_id=x&redirect=1&task_id=%00", "bytes=0-,-1", "W/\"x\""} {
		f.Add(seed, uint8(i*7))
	}
	r := newFixture(f, unlimited, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		h.Proxies = guard.Proxies{netip.MustParsePrefix("192.0.2.0/24")} // the addresses of httptest's requests
	})
	r.worker("w1", 4)
	task := r.task("")
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/cancel", "") // its stream ends
	paths := r.routesOf("GET", task)
	open := map[string]bool{}
	for route, policy := range r.api.Policies() {
		open[strings.TrimPrefix(route, "GET ")] = policy.Open()
	}
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		path := paths[int(which)%len(paths)]
		req := httptest.NewRequest("GET", path, nil)
		req.URL.RawQuery = text
		for _, name := range []string{"X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "Last-Event-Id", "Accept", "Origin", "Sec-Fetch-Site", "Cookie", "Authorization", "Via", "Range", "If-None-Match"} {
			req.Header.Set(name, text)
		}
		stranger := req.Clone(t.Context())
		r.answersProperly(t, stranger)
		if w := httptest.NewRecorder(); !open[path] {
			if r.api.ServeHTTP(w, stranger); w.Code != 401 {
				t.Fatalf("%s: a stranger gets %d", path, w.Code)
			}
		}
		req.Header.Del("Cookie")
		req.Header.Set(auth.HeaderKey, adminKey)
		r.answersProperly(t, req)
		odd := req.Clone(t.Context())
		odd.URL.Path = strings.NewReplacer(task.ID, text, "w1", text).Replace(path)
		odd.URL.RawQuery = ""
		r.answersProperly(t, odd)
	})
}
