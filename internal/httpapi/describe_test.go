package httpapi_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Minimum    *float64           `json:"minimum"`
	Maximum    *float64           `json:"maximum"`
	MaxLength  *int               `json:"maxLength"`
	MaxItems   *int               `json:"maxItems"`
	Enum       []string           `json:"enum"`
	Items      *schema            `json:"items"`
}

type description struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		RequestBody *struct {
			Content map[string]struct {
				Schema *schema `json:"schema"`
			} `json:"content"`
		} `json:"requestBody"`
		Responses map[string]struct {
			Content map[string]struct {
				Schema *schema `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

func (r *fixture) describe() (d description, raw string) {
	a := r.do("GET", "/openapi.json", "")
	must(r.t, json.Unmarshal(a.body, &d))
	return d, string(a.body)
}

func (d description) resolve(s *schema) *schema {
	if s.Ref == "" {
		return s
	}
	return d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
}

func TestTheDescriptionIsWhole(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	d, raw := r.describe()
	if !strings.HasPrefix(d.OpenAPI, "3.1") {
		t.Fatalf("OpenAPI %s", d.OpenAPI)
	}
	for route := range r.api.Policies() {
		method, path, _ := strings.Cut(route, " ")
		if _, there := d.Paths[path][strings.ToLower(method)]; !there && !strings.HasPrefix(path, "/docs") && path != "/openapi.json" && path != "/metrics" {
			t.Errorf("%s is not described", route)
		}
	}
	for _, never := range []string{"ErrorModel", "problem+json", "$schema", `"additionalProperties":false`} {
		if strings.Contains(raw, never) {
			t.Errorf("the description has %s", never)
		}
	}
	required := slices.Sorted(slices.Values(d.Components.Schemas["TaskSpec"].Required))
	if diff := cmp.Diff([]string{"agent_slug", "context_id", "prompt"}, required); diff != "" {
		t.Error(diff)
	}
}

func TestARegistrationsAnswersAreDescribed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	d, _ := r.describe()
	for range 2 {
		a := r.do("POST", "/api/runtime/workers", `{"name":"w"}`)
		got := d.Paths["/api/runtime/workers"]["post"].Responses[strconv.Itoa(a.status)].Content["application/json"].Schema
		if got == nil || d.resolve(got) == nil {
			t.Errorf("%d is not described", a.status)
		}
	}
}

// samples are valid bodies, one for each kind of body.
var samples = map[string]string{
	"/api/runtime/llm-tasks":                          `{"context_id":"c","agent_slug":"a","prompt":"p","policy":{}}`,
	"/api/runtime/llm-tasks/cancel":                   `{"ids":["x"]}`,
	"/api/runtime/llm-tasks/cancel-matching":          `{"agent_slug":"x","dry_run":true}`,
	"/api/runtime/llm-tasks/requeue-matching":         `{"agent_slug":"x","dry_run":true}`,
	"/api/runtime/llm-tasks/requeue":                  `{"ids":["x"]}`,
	"/api/runtime/llm-tasks/{id}/lease":               `{}`,
	"/api/runtime/llm-tasks/{id}/heartbeat":           `{}`,
	"/api/runtime/llm-tasks/{id}/dispatch":            `{}`,
	"/api/runtime/llm-tasks/{id}/complete":            `{"status":"success","output":"","metrics":{}}`,
	"/api/runtime/llm-tasks/{id}/ask":                 `{"lease_id":"l","kind":"tool","tool":"Bash","tool_use_id":"t","input":{}}`,
	"/api/runtime/llm-tasks/{id}/suspend":             `{"lease_id":"l","approval_id":"a","transcript":{"session_id":"s","sha256":"x"}}`,
	"/api/runtime/approvals/{id}":                     `{"decision":"deny","input_sha256":"x"}`,
	"/api/runtime/llm-tasks/{id}/release":             `{"lease_id":"l"}`,
	"/api/runtime/workers":                            `{"name":"w","capabilities":{},"pause":{"until":1,"class":"auth","reason":"r"}}`,
	"/api/runtime/workers/{id}/claim":                 `{}`,
	"/api/runtime/workers/{id}/drain":                 `{}`,
	"/api/runtime/workers/{id}/logs":                  `{"lines":[]}`,
	"/api/runtime/session":                            `{"key":"k"}`,
	"/api/runtime/keys":                               `{"name":"n","role":"client"}`,
	"/api/runtime/secrets/rotate":                     `{}`,
	"/api/runtime/config":                             `{"membridge_server_url":"http://h","admin_key":"k"}`,
	"/api/membridge/projects/{cid}/leadership/select": `{"primary_node_id":"n"}`,
	"/api/membridge/sync/push":                        `{"project":"p","agent":"a"}`,
	"/api/membridge/sync/pull":                        `{"project":"p","agent":"a"}`,
}

// The description states limits that the checks enforce: a value beyond each stated limit must be
// refused, naming the field.
func TestEveryStatedLimitIsHeld(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	d, _ := r.describe()
	limits := 0
	for path, item := range d.Paths {
		body := item["post"].RequestBody
		if body == nil || body.Content["application/json"].Schema == nil {
			continue
		}
		sample, there := samples[path]
		if !there {
			t.Errorf("no sample of a body for %s", path)
			continue
		}
		s := d.resolve(body.Content["application/json"].Schema)
		address := strings.NewReplacer("{id}", "x", "{cid}", "x").Replace(path)
		for field, bad := range d.violations(s, "") {
			for _, value := range bad {
				limits++
				var fields map[string]any
				must(t, json.Unmarshal([]byte(sample), &fields))
				put(fields, strings.Split(field, "."), value)
				raw, err := json.Marshal(fields)
				must(t, err)
				a := r.do("POST", address, string(raw))
				if a.status != 400 || !strings.Contains(string(a.body), `"field":"`+field) {
					t.Errorf("%s with a bad %s (%.40v): %d %s", path, field, value, a.status, a.body)
				}
			}
		}
	}
	if limits < 40 {
		t.Fatalf("only %d limits found in the description", limits)
	}
}

func put(fields map[string]any, path []string, value any) {
	for _, p := range path[:len(path)-1] {
		if fields[p] == nil { // optional fields
			fields[p] = map[string]any{}
		}
		fields = fields[p].(map[string]any)
	}
	fields[path[len(path)-1]] = value
}

// violations returns, by the path of each field, values that its schema forbids.
func (d description) violations(s *schema, prefix string) map[string][]any {
	bad := map[string][]any{}
	for name, f := range s.Properties {
		at := prefix + name
		if f = d.resolve(f); f.Properties != nil {
			maps.Copy(bad, d.violations(f, at+"."))
			continue
		}
		if slices.Contains(s.Required, name) {
			bad[at] = append(bad[at], nil)
		}
		if f.Minimum != nil {
			bad[at] = append(bad[at], *f.Minimum-1)
		}
		if f.Maximum != nil {
			bad[at] = append(bad[at], *f.Maximum+1)
		}
		if f.MaxLength != nil {
			bad[at] = append(bad[at], strings.Repeat("x", *f.MaxLength+1))
		}
		if f.MaxItems != nil {
			bad[at] = append(bad[at], slices.Repeat([]string{"x"}, *f.MaxItems+1))
		}
		if f.Enum != nil {
			bad[at] = append(bad[at], "none-of-them")
		}
	}
	return bad
}

// Only the operator decides which program a worker runs, with which options and environment: no
// body has a field for it.
func TestNoRequestNamesAProgram(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	d, _ := r.describe()
	program := regexp.MustCompile(`(?i)claude|binary|command|exec|arg[sv]|env|program|shell|option`)
	fields := 0
	var walk func(at string, s *schema)
	walk = func(at string, s *schema) {
		if s == nil || strings.Count(at, ".") > 8 {
			return
		}
		s = d.resolve(s)
		walk(at+".[]", s.Items)
		for name, of := range s.Properties {
			if fields++; program.MatchString(name) && name != "claude_cli" && !(name == "claude" && strings.HasSuffix(at, ".setup")) { // whether it can run any, and which version
				t.Errorf("%s.%s may name a program", at, name)
			}
			walk(at+"."+name, of)
		}
	}
	for path, item := range d.Paths {
		for method, op := range item {
			if op.RequestBody != nil {
				walk(method+" "+path, op.RequestBody.Content["application/json"].Schema)
			}
		}
	}
	if fields < 50 {
		t.Errorf("only %d fields were looked at", fields)
	}
}
