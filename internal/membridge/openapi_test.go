package membridge_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

func TestTheAPIIsDescribedAndItsPageNeedsNobodyElse(t *testing.T) {
	t.Parallel()
	p := start(t)
	var spec map[string]any
	a := p.as(t, nil, "GET", "/openapi.json", "")
	if err := json.Unmarshal(a.body, &spec); err != nil || !strings.HasPrefix(spec["openapi"].(string), "3.1") || strings.Contains(string(a.body), "ErrorModel") {
		t.Errorf("%d %.300s", a.status, a.body)
	}
	docs := p.as(t, nil, "GET", "/docs", "")
	if docs.status != 200 || strings.Contains(string(docs.body), "//") && strings.Contains(string(docs.body), "http") {
		t.Errorf("%d: the page leads elsewhere", docs.status)
	}
}

func TestARegistrationsAnswersAreDescribed(t *testing.T) {
	t.Parallel()
	p := start(t)
	var spec struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct {
					Schema map[string]any `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(p.as(t, nil, "GET", "/openapi.json", "").body, &spec); err != nil {
		t.Fatal(err)
	}
	described := spec.Paths["/agents"]["post"].Responses
	for range 2 {
		a := p.do(t, "POST", "/agents", `{"name":"a"}`)
		if got := described[strconv.Itoa(a.status)]; len(got.Content["application/json"].Schema) == 0 {
			t.Errorf("%d is described as %v", a.status, got)
		}
	}
}

// A type that JSON Schema does not know breaks client generators.
func TestEveryDescribedTypeIsOne(t *testing.T) {
	t.Parallel()
	p := start(t)
	var spec any
	if err := json.Unmarshal(p.as(t, nil, "GET", "/openapi.json", "").body, &spec); err != nil {
		t.Fatal(err)
	}
	known := []any{"string", "number", "integer", "boolean", "object", "array", "null"}
	found := 0
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			types, some := node["type"].([]any)
			if one, is := node["type"].(string); is {
				types, some = []any{one}, true
			}
			for _, name := range types {
				found++
				if some && !slices.Contains(known, name) {
					t.Errorf("%s has the type %q", path, name)
				}
			}
			for name, child := range node {
				if name != "securitySchemes" { // these have other types
					walk(path+"/"+name, child)
				}
			}
		case []any:
			for _, child := range node {
				walk(path, child)
			}
		}
	}
	walk("", spec)
	if found < 50 {
		t.Fatalf("only %d types are described", found)
	}
}

// The description states for each operation which keys the policies admit.
func TestTheOpenAPIDescriptionStatesThePolicies(t *testing.T) {
	t.Parallel()
	want := map[string]string{"open": `[{}]`, "agent": `[{"admin":[]},{"agent":[],"token":[]},{"agent":[]}]`, "admin": `[{"admin":[]}]`}
	p := start(t)
	described := 0
	for path, item := range p.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "DELETE": item.Delete, "PUT": item.Put, "PATCH": item.Patch} {
			if op == nil {
				continue
			}
			described++
			got, err := json.Marshal(op.Security)
			if policy := policies[method+" "+path]; err != nil || string(got) != want[policy] {
				t.Errorf("%s %s is described as %s, and is %q", method, path, got, policy)
			}
		}
	}
	if described < 18 {
		t.Errorf("only %d operations are described", described)
	}
}
