package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/auth"
)

// BenchmarkRequest measures one request without a network: middleware, decoding, use case, SQLite,
// encoding.
func BenchmarkRequest(b *testing.B) {
	for name, test := range map[string]struct{ method, path, body string }{
		"openapi":   {"GET", "/openapi.json", ""},
		"refused":   {"POST", "/api/runtime/llm-tasks", `{}`},
		"read":      {"GET", "/api/runtime/llm-tasks/{id}", ""},
		"heartbeat": {"POST", "/api/runtime/llm-tasks/{id}/heartbeat", `{}`},
	} {
		b.Run(name, func(b *testing.B) {
			r := newFixture(b)
			r.worker("w1", 1)
			task := r.task("")
			r.lease(task.ID)
			path := strings.ReplaceAll(test.path, "{id}", task.ID)
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequest(test.method, path, strings.NewReader(test.body))
				req.Header.Set(auth.HeaderKey, adminKey)
				r.api.ServeHTTP(httptest.NewRecorder(), req)
			}
		})
	}
}
