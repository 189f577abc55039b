package httpapi_test

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// hostileRequests name things in filters and paths; TEXT stands for text that PostgreSQL refuses.
var hostileRequests = []string{
	"GET /leases?worker_id=TEXT", "GET /leases?task_id=TEXT", "GET /leases?status=active&worker_id=TEXT&limit=5",
	"GET /artifacts?task_id=TEXT", "GET /artifacts?type=TEXT", "GET /artifacts/TEXT", "GET /artifacts/TEXT/content",
	"GET /audit?entity_id=TEXT", "GET /audit?action=TEXT", "GET /contexts/TEXT", "DELETE /contexts/TEXT",
	"GET /llm-tasks?context_id=TEXT", "GET /llm-tasks?agent_slug=TEXT", "GET /llm-tasks?worker_id=TEXT", "GET /llm-tasks?error_class=TEXT", "GET /llm-tasks?label=TEXT", "GET /llm-tasks?q=TEXT",
	"GET /llm-tasks/TEXT", "GET /llm-tasks/TEXT/results", "GET /llm-tasks/TEXT/events", "POST /llm-tasks/TEXT/cancel", "POST /llm-tasks/TEXT/lease",
	"GET /workers/TEXT", "GET /workers/TEXT/logs", "DELETE /workers/TEXT", "POST /workers/TEXT/drain", "POST /workers/TEXT/claim",
	"DELETE /keys/TEXT", "DELETE /sessions/TEXT", "GET /filters/TEXT", "DELETE /filters/TEXT", "PUT /filters/TEXT",
}

// TestHostileTextIsAnsweredAlike: a database must not decide which names are valid.
func TestHostileTextIsAnsweredAlike(t *testing.T) {
	t.Parallel()
	lite, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "bloom.db")})
	must(t, err)
	t.Cleanup(func() { _ = lite.Close() })
	pg, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.Start(t)})
	must(t, err)
	t.Cleanup(func() { _ = pg.Close() })
	urls := [2]string{}
	for i, store := range []contract.Store{lite, pg} {
		urls[i] = serve(t, store).BaseURL()
	}
	id := regexp.MustCompile(`"request_id":"[^"]*"`)
	for _, request := range hostileRequests {
		method, path, _ := strings.Cut(request, " ")
		for _, text := range []string{"%00", "a%00b", "%ff", "%ed%a0%80"} {
			answers := [2]string{}
			for i, url := range urls {
				req, err := http.NewRequestWithContext(t.Context(), method, url+strings.ReplaceAll(path, "TEXT", text), strings.NewReader("{}"))
				must(t, err)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set(auth.HeaderKey, adminKey)
				res, err := http.DefaultClient.Do(req)
				must(t, err)
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				must(t, err)
				answers[i] = res.Status + " " + id.ReplaceAllString(string(body), "")
			}
			if answers[0] != answers[1] || strings.HasPrefix(answers[0], "5") {
				t.Errorf("%s with %s:\nsqlite      %s\npostgresql  %s", request, text, answers[0], answers[1])
			}
		}
	}
}
