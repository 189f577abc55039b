package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

func TestKeysComeInBothHeadersAndAnyCase(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.key = ""
	r.call(200, nil, "GET", "/stats", "", "x-runtime-api-key", adminKey)
	r.call(200, nil, "GET", "/stats", "", "Authorization", "bearer "+adminKey)
	f := r.fails(401, "unauthorized", "GET", "/stats", "", "Authorization", "Basic "+adminKey)
	if strings.Contains(f.Message, adminKey) {
		t.Fatal("the answer repeats the key")
	}
}

func TestAWorkersKeyHasToNameTheLease(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	r.lease(task.ID)
	r.key = workerKey
	r.fails(400, "invalid_request", "POST", "/llm-tasks/"+task.ID+"/heartbeat", "{}")
	r.fails(400, "invalid_request", "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":""}`)
	r.fails(400, "invalid_request", "POST", "/llm-tasks/"+task.ID+"/events", `{"seq":1,"type":"text"}`)
	r.fails(400, "invalid_request", "POST", "/llm-tasks/"+task.ID+"/release", `{}`)
}

func noKeys(_ *dispatch.Config, a *auth.Config, _ *httpapi.Config) {
	a.AdminKey, a.WorkerKey = "", ""
}

func TestDevelopmentModeServesThisMachineOnly(t *testing.T) {
	t.Parallel()
	r := newFixture(t, noKeys)
	r.key = ""
	r.call(200, nil, "GET", "/config", "")
	for name, value := range map[string]string{
		"Forwarded": "for=10.0.0.1", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Real-IP": "127.0.0.1",
	} {
		r.fails(401, "unauthorized", "GET", "/config", "", name, value)
	}
	req := r.request("GET", "/api/runtime/config", "")
	req.Host = "rebound.example.org"
	res, err := r.client.Do(req)
	must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Fatalf("a foreign Host was answered with %d", res.StatusCode)
	}
}

func TestPagesOfOtherOriginsCannotAct(t *testing.T) {
	t.Parallel()
	r := newFixture(t, noKeys)
	r.key = ""
	body := `{"context_id":"c","agent_slug":"a","prompt":"p"}`
	r.fails(403, "cross_origin", "POST", "/llm-tasks", body, "Origin", "https://evil.example")
	r.fails(403, "cross_origin", "POST", "/llm-tasks", body, "Sec-Fetch-Site", "cross-site")
	r.call(201, nil, "POST", "/llm-tasks", body, "Origin", r.url)
	r.call(201, nil, "POST", "/llm-tasks", body, "Sec-Fetch-Site", "same-origin")
	// A body that a form can send without a preflight is refused.
	r.fails(415, "unsupported_media_type", "POST", "/llm-tasks", body, "Content-Type", "text/plain")
	r.fails(415, "unsupported_media_type", "POST", "/llm-tasks", body, "Content-Type", "application/x-www-form-urlencoded")
}

func TestConnectionTestsAreLimited(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.DefaultLimits))
	r.key = ""
	for range 20 {
		r.call(200, nil, "POST", "/test-connection", "")
	}
	f := r.call(429, nil, "POST", "/test-connection", "")
	if f.header.Get("Retry-After") == "" {
		t.Fatal("a 429 without Retry-After")
	}
}
