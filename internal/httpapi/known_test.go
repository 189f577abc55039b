package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// TestEveryChangingRequestRefusesWhatItDoesNotKnow sends each of them a query parameter and, if it
// has a body or could have one, a field that it does not have, at each level of its example.
func TestEveryChangingRequestRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	var described struct {
		Paths map[string]map[string]struct {
			ID   string `json:"operationId"`
			Body *struct {
				Content map[string]struct {
					Example json.RawMessage `json:"example"`
				} `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
	}
	must(t, json.Unmarshal(httpapi.OpenAPI("test"), &described))
	refused := func(method, path, body, name string) {
		t.Helper()
		var f httpapi.Failure
		a := r.do(method, path, body)
		must(t, json.Unmarshal(a.body, &f))
		if a.status != http.StatusBadRequest || f.Code != bloom.CodeInvalid {
			t.Errorf("%s %s with %s: %d %s", method, path, name, a.status, a.body)
		}
		if !strings.Contains(f.Message, name) && (len(f.Details) == 0 || !strings.Contains(f.Details[0].Message, `{"seq","type","at","data"}`)) {
			t.Errorf("%s %s: %q does not name %s", method, path, f.Message, name)
		}
	}
	changing := 0
	for route := range r.api.Policies() {
		method, path, _ := strings.Cut(route, " ")
		if method == http.MethodGet {
			continue
		}
		changing++
		op := described.Paths[path][strings.ToLower(method)]
		path = strings.NewReplacer("{id}", strings.Repeat("0", 36), "{cid}", "c", "{name}", "n").Replace(path)
		if op.ID == "dispatch-task" { // ignores what the earlier web application sends
			continue
		}
		refused(method, path+"?no_such=1", "{}", "no_such")
		switch {
		case op.ID == "append-events":
			refused(method, path+"?lease_id=l", `{"seq":1,"type":"a","no_such":1}`, "no_such")
		case op.Body != nil && op.Body.Content["application/json"].Example != nil:
			var example any
			must(t, json.Unmarshal(op.Body.Content["application/json"].Example, &example))
			each(example, "", func(name string) {
				if name != "metrics.no_such" && name != "capabilities.no_such" && name != "input.no_such" {
					refused(method, path, string(storable.MustJSON(example)), name)
				}
			})
		case op.Body == nil && (method == http.MethodPost || method == http.MethodDelete):
			refused(method, path, `{"no_such":1}`, "no_such")
		}
	}
	if changing < 35 {
		t.Errorf("%d routes change something", changing)
	}
}

// each calls fn with every object in v having the field no_such in turn.
func each(v any, path string, fn func(name string)) {
	switch v := v.(type) {
	case map[string]any:
		v["no_such"] = 1
		fn(path + "no_such")
		delete(v, "no_such")
		for name, inner := range v {
			each(inner, path+name+".", fn)
		}
	case []any:
		for _, inner := range v {
			each(inner, path, fn)
		}
	}
}

func TestAMisspeltRestrictionChangesNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	one, two := r.task(""), r.task("")
	r.call(200, nil, "POST", "/llm-tasks/"+two.ID+"/cancel", "")
	for path, body := range map[string]string{
		"/llm-tasks/cancel-matching":           `{"status":"queued","contextid":"another"}`,
		"/llm-tasks/requeue-matching":          `{"status":"cancelled","dryrun":true}`,
		"/llm-tasks":                           `{"context_id":"c","agent_slug":"a","prompt":"p","policy":{"timeout":5}}`,
		"/llm-tasks/" + one.ID + "/cancel":     `{"dry_run":true}`,
		"/llm-tasks/" + two.ID + "/requeue":    `{"dry_run":true}`,
		"/llm-tasks/cancel?dry_run=1":          `{"ids":["` + one.ID + `"]}`,
		"/llm-tasks/requeue-matching?dry_run=": `{"status":"cancelled"}`,
	} {
		r.fails(http.StatusBadRequest, bloom.CodeInvalid, "POST", path, body)
	}
	var now []bloom.Task
	r.call(200, &now, "GET", "/llm-tasks", "")
	if len(now) != 2 || now[0].Status != bloom.TaskCancelled || now[1].Status != bloom.TaskQueued {
		t.Errorf("%+v", now)
	}
	// What clients of the earlier implementation send is ignored.
	r.call(201, nil, "POST", "/workers", `{"name":"w","capabilities":{"claude_cli":true,"python":true}}`)
	r.call(200, nil, "POST", "/workers/w/claim", `{"instance_id":"i"}`)
	r.call(200, nil, "POST", "/llm-tasks/"+one.ID+"/dispatch", `{"lease_id":"x","worker":{"url":"http://x"}}`)
	r.call(200, nil, "POST", "/llm-tasks/"+two.ID+"/requeue", `{}`)
	lease := r.lease(one.ID).Lease
	r.call(200, nil, "POST", "/llm-tasks/"+one.ID+"/complete", `{"lease_id":"`+lease.ID+`","status":"success","output":"","metrics":{"duration_ms":1,"energy":2}}`)
}
