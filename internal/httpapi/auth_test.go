package httpapi_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// policies repeats the decision for every route: a new route without a line here fails, and so does
// a changed policy. The letters are the admitted roles: admin, client, worker, p for approver, viewer, and - for
// callers without a key.
var policies = map[string]string{
	"GET /health":                                          "acwpv-",
	"GET /healthz":                                         "acwpv-",
	"GET /readyz":                                          "acwpv-",
	"GET /metrics":                                         "acv",
	"GET /openapi.json":                                    "acwpv-",
	"GET /docs":                                            "acwpv-",
	"GET /docs/docs.js":                                    "acwpv-",
	"GET /docs/docs.css":                                   "acwpv-",
	"GET /api/runtime/health":                              "acwpv-",
	"POST /api/runtime/test-connection":                    "acwpv-",
	"GET /api/runtime/config":                              "a",
	"POST /api/runtime/config":                             "a",
	"GET /api/runtime/session":                             "acwpv-",
	"POST /api/runtime/session":                            "acwpv-",
	"DELETE /api/runtime/session":                          "acwpv-",
	"GET /api/runtime/session/oidc":                        "acwpv-",
	"GET /api/runtime/session/oidc/callback":               "acwpv-",
	"POST /api/runtime/secrets/rotate":                     "a",
	"GET /api/runtime/keys":                                "a",
	"POST /api/runtime/keys":                               "a",
	"DELETE /api/runtime/keys/{id}":                        "a",
	"GET /api/runtime/sessions":                            "a",
	"DELETE /api/runtime/sessions/{id}":                    "a",
	"GET /api/runtime/stats":                               "acv",
	"GET /api/runtime/approvals":                           "acpv",
	"GET /api/runtime/approvals/{id}":                      "acpv",
	"POST /api/runtime/approvals/{id}":                     "acp",
	"POST /api/runtime/llm-tasks/{id}/ask":                 "aw",
	"POST /api/runtime/llm-tasks/{id}/suspend":             "aw",
	"GET /api/runtime/schedules":                           "acv",
	"GET /api/runtime/schedules/{name}":                    "acv",
	"PUT /api/runtime/schedules/{name}":                    "ac",
	"DELETE /api/runtime/schedules/{name}":                 "ac",
	"POST /api/runtime/schedules/{name}/run":               "ac",
	"POST /api/runtime/schedules/{name}/pause":             "ac",
	"POST /api/runtime/schedules/{name}/resume":            "ac",
	"GET /api/runtime/filters":                             "acv",
	"GET /api/runtime/filters/{name}":                      "acv",
	"PUT /api/runtime/filters/{name}":                      "ac",
	"DELETE /api/runtime/filters/{name}":                   "ac",
	"GET /api/runtime/stats/series":                        "acv",
	"GET /api/runtime/problems":                            "acv",
	"GET /api/runtime/events":                              "acpv",
	"POST /api/runtime/llm-tasks/cancel":                   "ac",
	"POST /api/runtime/llm-tasks/cancel-matching":          "ac",
	"POST /api/runtime/llm-tasks/requeue-matching":         "ac",
	"POST /api/runtime/llm-tasks/requeue":                  "ac",
	"GET /api/runtime/runs":                                "acv",
	"GET /api/runtime/audit":                               "acv",
	"GET /api/runtime/audit/chain":                         "acv",
	"GET /api/runtime/leases":                              "acv",
	"GET /api/runtime/artifacts":                           "acv",
	"POST /api/runtime/artifacts/move":                     "a",
	"POST /api/runtime/artifacts/verify":                   "a",
	"GET /api/runtime/artifacts/{id}":                      "acv",
	"GET /api/runtime/artifacts/archive":                   "acv",
	"GET /api/runtime/artifacts/{id}/content":              "acv",
	"GET /api/runtime/contexts":                            "acv",
	"GET /api/runtime/contexts/{id}":                       "acv",
	"DELETE /api/runtime/contexts/{id}":                    "ac",
	"PATCH /api/runtime/contexts/{id}":                     "ac",
	"GET /api/runtime/llm-tasks/{id}/workspace":            "aw",
	"GET /api/runtime/llm-tasks/{id}/workspace/content":    "aw",
	"PUT /api/runtime/llm-tasks/{id}/workspace":            "aw",
	"GET /api/runtime/llm-tasks/{id}/transcript":           "aw",
	"GET /api/runtime/llm-tasks/{id}/transcript/content":   "aw",
	"PUT /api/runtime/llm-tasks/{id}/transcript":           "aw",
	"PUT /api/runtime/llm-tasks/{id}/artifacts":            "aw",
	"GET /api/runtime/llm-tasks/{id}/earlier":              "aw",
	"POST /api/runtime/llm-tasks":                          "ac",
	"GET /api/runtime/llm-tasks":                           "acv",
	"GET /api/runtime/llm-tasks/{id}":                      "acpv",
	"GET /api/runtime/llm-tasks/{id}/results":              "acv",
	"GET /api/runtime/llm-tasks/{id}/events":               "acv",
	"GET /api/runtime/llm-tasks/{id}/attachments/{name}":   "acwv",
	"POST /api/runtime/llm-tasks/{id}/events":              "aw",
	"POST /api/runtime/llm-tasks/{id}/lease":               "ac",
	"POST /api/runtime/llm-tasks/{id}/heartbeat":           "aw",
	"POST /api/runtime/llm-tasks/{id}/complete":            "aw",
	"POST /api/runtime/llm-tasks/{id}/release":             "aw",
	"POST /api/runtime/llm-tasks/{id}/cancel":              "ac",
	"POST /api/runtime/llm-tasks/{id}/dispatch":            "ac",
	"POST /api/runtime/llm-tasks/{id}/requeue":             "ac",
	"GET /api/runtime/workers":                             "acv",
	"GET /api/runtime/workers/{id}":                        "acv",
	"POST /api/runtime/workers":                            "aw",
	"DELETE /api/runtime/workers/{id}":                     "a",
	"POST /api/runtime/workers/{id}/drain":                 "a",
	"POST /api/runtime/workers/{id}/claim":                 "aw",
	"GET /api/runtime/workers/{id}/logs":                   "acv",
	"POST /api/runtime/workers/{id}/logs":                  "aw",
	"GET /api/membridge/health":                            "acv",
	"GET /api/membridge/projects":                          "acv",
	"GET /api/membridge/jobs":                              "acv",
	"GET /api/membridge/jobs/{id}":                         "acv",
	"GET /api/membridge/agents":                            "acv",
	"POST /api/membridge/sync/push":                        "a",
	"POST /api/membridge/sync/pull":                        "a",
	"GET /api/membridge/projects/{cid}/leadership":         "acv",
	"GET /api/membridge/projects/{cid}/nodes":              "acv",
	"POST /api/membridge/projects/{cid}/leadership/select": "a",
}

// everyCaller returns a key of each kind, by the letter of its role. Callers with longer names, and
// "-", which has no key, are anonymous.
func (r *fixture) everyCaller() map[string]string {
	callers := map[string]string{"a": adminKey, "w": workerKey, "-": "", "bad": "not-a-key-0123456789"}
	for letter, role := range map[string]auth.Role{"c": auth.RoleClient, "p": auth.RoleApprover, "v": auth.RoleViewer, "stored worker": auth.RoleWorker} {
		callers[letter] = r.newKey(role).Key
	}
	callers["w"] = callers["stored worker"]
	delete(callers, "stored worker")
	callers["forged"] = callers["c"][:len(callers["c"])-4] + "aaaa"
	revoked, expired := r.newKey(auth.RoleAdmin), r.newKey(auth.RoleAdmin, `,"expires_at":`+strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10))
	r.call(200, nil, "DELETE", "/keys/"+revoked.ID, "")
	r.clock.by.Store(int64(2 * time.Minute))
	callers["revoked"], callers["expired"] = revoked.Key, expired.Key
	return callers
}

// stored creates a key in the store, without a request.
func (r *fixture) stored(role auth.Role) string {
	r.t.Helper()
	k, err := auth.CreateKey(r.t.Context(), r.store, bloom.KeySpec{Name: string(role), Role: role}, "test", timing.Millis(time.Now()), true)
	must(r.t, err)
	return k.Key
}

// newKey creates a key through the API.
func (r *fixture) newKey(role auth.Role, more ...string) bloom.CreatedKey {
	r.t.Helper()
	var k bloom.CreatedKey
	r.call(201, &k, "POST", "/keys", `{"name":"`+string(role)+`","role":"`+string(role)+`"`+strings.Join(more, "")+`}`, auth.HeaderKey, adminKey)
	return k
}

func TestEveryRouteAdmitsWhomItShould(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	callers := r.everyCaller()
	for route := range r.api.Policies() {
		admitted, decided := policies[route]
		if !decided {
			t.Errorf("%s: nobody has decided whom it admits", route)
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{id}", "00000000-0000-7000-8000-000000000000", "{cid}", "abc").Replace(path)
		for who, key := range callers {
			if path == "/api/runtime/test-connection" && who != "a" && who != "-" {
				continue // another test covers its rate limit
			}
			stranger := len(who) > 1 || who == "-"
			want := strings.Contains(admitted, who) || (stranger && strings.Contains(admitted, "-"))
			got := r.statusOf(method, path, key)
			switch {
			case want && (got == 401 || got == 403):
				t.Errorf("%s refuses %q with %d", route, who, got)
			case !want && who == "forged" && got == 429: // guessing a key is rate-limited
			case !want && stranger && got != 401:
				t.Errorf("%s answers %q with %d, want 401", route, who, got)
			case !want && !stranger && got != 403:
				t.Errorf("%s answers %q with %d, want 403", route, who, got)
			}
		}
	}
	for route := range policies {
		if _, there := r.api.Policies()[route]; !there {
			t.Errorf("%s is decided about and does not exist", route)
		}
	}
}

// The description states for each operation the roles that the policies admit.
func TestTheOpenAPIDescriptionStatesThePolicies(t *testing.T) {
	t.Parallel()
	var spec struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string `json:"security"`
			Roles    []string              `json:"x-roles"`
		} `json:"paths"`
	}
	must(t, json.Unmarshal(httpapi.OpenAPI("test"), &spec))
	described := 0
	for path, item := range spec.Paths {
		for method, op := range item {
			described++
			policy := policies[strings.ToUpper(method)+" "+path]
			letters := ""
			for _, role := range op.Roles {
				letters += strings.Replace(role, "approver", "p", 1)[:1]
			}
			if open := len(op.Security) == 1 && len(op.Security[0]) == 0; open {
				letters += "-"
			} else if len(op.Security) != 3 {
				t.Errorf("%s %s: security %v", method, path, op.Security)
			}
			if letters != policy {
				t.Errorf("%s %s is described as admitting %q, and admits %q", method, path, letters, policy)
			}
		}
	}
	if described < 70 {
		t.Errorf("only %d operations are described", described)
	}
}

// statusOf reads no body: streams have no end.
func (r *fixture) statusOf(method, path, key string) int {
	r.t.Helper()
	req := r.request(method, path, "", auth.HeaderKey, key)
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	res, err := r.client.Do(req.WithContext(ctx))
	must(r.t, err)
	defer res.Body.Close()
	return res.StatusCode
}
