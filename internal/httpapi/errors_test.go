package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"

	"github.com/bloom-runtime/bloom/internal/auth"
)

func TestBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const needed = `"context_id":"c","agent_slug":"a","prompt":"p"`
	for name, test := range map[string]struct {
		path, body, field string
	}{
		"nothing at all":                 {"/llm-tasks", "", "context_id"},
		"an empty prompt":                {"/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":""}`, "prompt"},
		"null for what is needed":        {"/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":null}`, "prompt"},
		"a number for a text":            {"/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":5}`, "prompt"},
		"a text for a number":            {"/llm-tasks", `{` + needed + `,"policy":{"timeout_sec":"SECRET"}}`, "policy.timeout_sec"},
		"no time at all":                 {"/llm-tasks", `{` + needed + `,"policy":{"timeout_sec":0}}`, "policy.timeout_sec"},
		"too much time":                  {"/llm-tasks", `{` + needed + `,"policy":{"timeout_sec":86401}}`, "policy.timeout_sec"},
		"a negative budget":              {"/llm-tasks", `{` + needed + `,"policy":{"budget":-1}}`, "policy.budget"},
		"a format nobody knows":          {"/llm-tasks", `{` + needed + `,"desired_format":"SECRET"}`, "desired_format"},
		"too many attempts":              {"/llm-tasks", `{` + needed + `,"max_attempts":11}`, "max_attempts"},
		"labels that are no list":        {"/llm-tasks", `{` + needed + `,"labels":"SECRET"}`, "labels"},
		"a long context":                 {"/llm-tasks", `{"context_id":"` + strings.Repeat("c", 513) + `","agent_slug":"a","prompt":"p"}`, "context_id"},
		"a list":                         {"/llm-tasks", `["SECRET"]`, ""},
		"a text":                         {"/llm-tasks", `"SECRET"`, ""},
		"no JSON":                        {"/llm-tasks", `{SECRET`, ""},
		"two values":                     {"/llm-tasks", `{` + needed + `}{}`, ""},
		"half a value":                   {"/llm-tasks", `{` + needed, ""},
		"a hundred levels":               {"/llm-tasks", `{` + needed + `,"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, ""},
		"a worker without a name":        {"/workers", `{}`, "name"},
		"a worker named like a path":     {"/workers", `{"name":"a/b"}`, "name"},
		"a worker with too many slots":   {"/workers", `{"name":"w","capabilities":{"max_concurrency":33}}`, "capabilities.max_concurrency"},
		"a claim that waits too long":    {"/workers/w/claim", `{"wait_sec":61}`, "wait_sec"},
		"settings without a key":         {"/config", `{"membridge_server_url":"http://127.0.0.1:8000"}`, "admin_key"},
		"settings with a strange scheme": {"/config", `{"membridge_server_url":"file:///etc","admin_key":"k"}`, "membridge_server_url"},
		"settings with a user":           {"/config", `{"membridge_server_url":"http://SECRET@host","admin_key":"k"}`, "membridge_server_url"},
		"an outcome nobody knows":        {"/llm-tasks/x/complete", `{"status":"SECRET"}`, "status"},
		"a success without output":       {"/llm-tasks/x/complete", `{"status":"success"}`, "output"},
		"an error without its message":   {"/llm-tasks/x/complete", `{"status":"error"}`, "error_message"},
		"time that runs backwards":       {"/llm-tasks/x/complete", `{"status":"success","output":"","metrics":{"duration_ms":-1}}`, "metrics.duration_ms"},
		"half a millisecond":             {"/llm-tasks/x/complete", `{"status":"success","output":"","metrics":{"duration_ms":1.5}}`, "metrics.duration_ms"},
		"a lease of no time":             {"/llm-tasks/x/lease", `{"ttl_seconds":0}`, "ttl_seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := r.do("POST", "/api/runtime"+test.path, test.body)
			var f httpapi.Failure
			if a.status != http.StatusBadRequest || json.Unmarshal(a.body, &f) != nil || f.Code != "invalid_request" {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			if test.field != "" && (len(f.Details) == 0 || f.Details[0].Field != test.field) {
				t.Fatalf("the details name no %s: %s", test.field, a.body)
			}
			if strings.Contains(string(a.body), "SECRET") {
				t.Fatalf("the answer repeats what was submitted: %s", a.body)
			}
		})
	}
}

func TestNullsAreAccepted(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	var task bloom.Task
	a := r.call(201, &task, "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p","policy":null,"labels":null,
		"context_hints":null,"desired_format":null,"max_attempts":null,"run_at":null,"idempotency_key":null}`)
	if task.Policy.TimeoutSec != bloom.DefaultTimeoutSec || task.MaxAttempts != 3 || task.IdempotencyKey != nil {
		t.Fatalf("nulls did not mean the defaults: %s", a.body)
	}
	for _, never := range []string{"$schema", `"labels":null`, `"context_hints":null`} {
		if strings.Contains(string(a.body), never) {
			t.Fatalf("the answer has %s: %s", never, a.body)
		}
	}
	for _, list := range []string{"/leases", "/artifacts", "/workers", "/llm-tasks?status=dead", "/audit?action=none", "/llm-tasks/" + task.ID + "/results"} {
		if a := r.call(200, nil, "GET", list, ""); strings.TrimSpace(string(a.body)) != "[]" {
			t.Errorf("an empty list at %s is %s", list, a.body)
		}
	}
}

func TestSizesThatAreRefused(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	big := func(n int) string { return `{"x":"` + strings.Repeat("x", n) + `"}` }
	r.fails(413, "payload_too_large", "POST", "/workers", big(1<<20))
	r.fails(413, "payload_too_large", "POST", "/llm-tasks", big(4<<20))
	r.fails(413, "payload_too_large", "POST", "/llm-tasks/x/complete", big(32<<20))
	r.call(201, nil, "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"`+strings.Repeat("x", 3<<20)+`"}`)
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fails(404, "not_found", "GET", "/nothing", "")
	a := r.call(405, nil, "PUT", "/llm-tasks", "{}")
	if !strings.Contains(a.header.Get("Allow"), "POST") || !strings.Contains(a.header.Get("Allow"), "GET") {
		t.Fatalf("a 405 allows %q", a.header.Get("Allow"))
	}
	r.fails(405, "method_not_allowed", "DELETE", "/stats", "")
	r.fails(404, "not_found", "GET", "/artifacts/not-an-id", "")
	r.fails(404, "not_found", "GET", "/artifacts/00000000-0000-7000-8000-000000000000/content", "")
	for _, bad := range []string{"?limit=0", "?limit=x", "?cursor=%21", "?status=odd"} {
		r.fails(400, "invalid_request", "GET", "/llm-tasks"+bad, "")
	}
	for _, bad := range []string{"?limit=x", "?limit=-1", "?after=x", "?after=99999999999999999999"} {
		r.fails(400, "invalid_request", "GET", "/audit/chain"+bad, "")
	}
	r.call(200, nil, "GET", "/llm-tasks?limit=99999", "")
	r.call(200, nil, "GET", "/audit/chain?limit=99999&after=", "")
}

func TestAPanicIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = panicking{} })
	f := r.do("GET", "/api/membridge/health", "")
	if f.status != 500 || strings.Contains(string(f.body), "inner secret") || !strings.Contains(string(f.body), `"code":"internal"`) {
		t.Fatalf("a panic answers %d %s", f.status, f.body)
	}
	log := r.log.String()
	if strings.Count(log, "inner secret") != 1 || !strings.Contains(log, "errors_test.go") {
		t.Fatalf("a panic is logged as %s", log)
	}
}

type panicking struct{}

func (panicking) Do(context.Context, string, string, json.RawMessage) (int, json.RawMessage, error) {
	panic("inner secret")
}

func TestARequestIsOneLogLineWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.call(200, nil, "GET", "/llm-tasks?q=query-secret", "", "X-Request-ID", "my-id.1")
	r.do("POST", "/api/runtime/llm-tasks", `{"prompt":"body-secret"}`, "X-Request-ID", "bad id!")
	log := r.log.String()
	if !regexp.MustCompile(`msg="GET /api/runtime/llm-tasks 200 \d+ms" request_id=my-id\.1`).MatchString(log) {
		t.Fatalf("the log says %s", log)
	}
	if !regexp.MustCompile(`msg="POST /api/runtime/llm-tasks 400 \d+ms" request_id=[0-9a-f]{24}\b`).MatchString(log) {
		t.Fatalf("the log says %s", log)
	}
	for _, secret := range []string{"query-secret", "body-secret", adminKey} {
		if strings.Contains(log, secret) {
			t.Errorf("the log shows %s", secret)
		}
	}
}

func TestAnUnavailableStoreIsReported(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	must(t, r.store.Close())
	a := r.call(503, nil, "GET", "/health", "")
	if !strings.Contains(string(a.body), `"status":"degraded"`) {
		t.Fatalf("health says %s", a.body)
	}
	f := r.fails(503, "unavailable", "GET", "/stats", "")
	if strings.Contains(strings.ToLower(f.Message), "sql") {
		t.Fatalf("inner text shows: %s", f.Message)
	}
}

func TestHealthShowsStrangersLess(t *testing.T) {
	t.Parallel()
	text := "dial tcp 10.1.2.3:8000: refused"
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		h.Disk = func() *httpapi.Disk { return &httpapi.Disk{Free: 5, Total: 10, Low: true} }
		d.Membridge = &bridge{state: dispatch.MembridgeState{ConsecutiveFailures: 3, LastError: &text, SkippedAgents: 2, SkippedWhy: "entry 10.1.2.3"}}
	})
	disk := `"disk":{"free_bytes":5,"total_bytes":10,"low":true}`
	if a := r.call(200, nil, "GET", "/health", ""); !strings.Contains(string(a.body), "10.1.2.3") || !strings.Contains(string(a.body), disk) {
		t.Fatalf("an admin sees %s", a.body)
	}
	r.key = ""
	if a := r.call(200, nil, "GET", "/health", ""); strings.Contains(string(a.body), "10.1.2.3") || strings.Contains(string(a.body), "disk") || !strings.Contains(string(a.body), `"consecutiveFailures":3`) {
		t.Fatalf("a stranger sees %s", a.body)
	}
}

// A request whose length can be read in two ways allows request smuggling.
func TestAmbiguousLengthsAreRefused(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for name, head := range map[string]string{
		"both":          "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
		"two lengths":   "Content-Length: 4\r\nContent-Length: 5\r\n",
		"odd encodings": "Transfer-Encoding: chunked, identity\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
			must(t, err)
			defer conn.Close()
			must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			_, err = fmt.Fprintf(conn, "POST /api/runtime/llm-tasks HTTP/1.1\r\nHost: localhost\r\nX-Runtime-API-Key: %s\r\n%s\r\n0\r\n\r\n", adminKey, head)
			must(t, err)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			must(t, err)
			defer res.Body.Close()
			if res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusNotImplemented {
				t.Fatalf("status %d", res.StatusCode)
			}
		})
	}
}
