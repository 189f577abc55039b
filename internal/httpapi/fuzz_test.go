package httpapi_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

// fuzzBody sends bodies to a path. Whatever comes in, the answer is one of ours:
// a success, or a failure with its parts, and never our own fault.
func fuzzBody(f *testing.F, path string, seeds ...string) {
	for _, s := range append(seeds, "", "null", "[]", `{"a":`, "{\"prompt\":\"\\ud800\xff\\u0000\"}", strings.Repeat("[", 80)) {
		f.Add(s)
	}
	r := newRig(f)
	r.worker("w1", 4)
	task := r.task("")
	l := r.lease(task.ID)
	path = strings.ReplaceAll(path, "{id}", task.ID)
	f.Fuzz(func(t *testing.T, body string) {
		req := httptest.NewRequest("POST", "/api/runtime"+path, strings.NewReader(strings.ReplaceAll(body, "LEASE", l.Lease.ID)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(auth.HeaderKey, adminKey)
		w := httptest.NewRecorder()
		r.api.ServeHTTP(w, req)
		if w.Code == 500 || w.Code == 422 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
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
	})
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
	// No wait_sec among the seeds: a fuzzer that waits finds nothing.
	fuzzBody(f, "/workers/w1/claim", `{"instance_id":"i","max":1,"held":["LEASE","x"]}`)
}

func FuzzEvents(f *testing.F) {
	fuzzBody(f, "/llm-tasks/{id}/events?lease_id=00000000-0000-7000-8000-000000000000", "{\"seq\":1,\"type\":\"t\",\"data\":{\"a\":\"\\ud800\"}}\n\n{}")
}
