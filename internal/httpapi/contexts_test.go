package httpapi_test

import (
	"testing"

	"github.com/bloom-runtime/bloom"
)

func TestContextsAreListedByLastUse(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 4)
	first := r.finish("done").Task.ContextID
	r.call(201, nil, "POST", "/llm-tasks", `{"context_id":"a/b c","agent_slug":"coder","prompt":"hello"}`)
	var list []bloom.Context
	page := r.call(200, &list, "GET", "/contexts?limit=1", "")
	if len(list) != 1 || list[0].ID != "a/b c" || page.header.Get("Link") == "" {
		t.Fatalf("the first page: %+v, %v", list, page.header)
	}
	r.call(200, &list, "GET", "/contexts", "")
	if len(list) != 2 || list[1].ID != first || list[1].Tasks != 1 || list[1].Unfinished != 0 || list[1].WorkerID == nil {
		t.Fatalf("contexts: %+v", list)
	}
	var one bloom.Context
	r.call(200, &one, "GET", "/contexts/a%2Fb%20c", "")
	if one.ID != "a/b c" || one.Unfinished != 1 {
		t.Fatalf("a context with a slash: %+v", one)
	}
	r.fails(404, "not_found", "GET", "/contexts/nobody", "")
	r.call(200, &one, "PATCH", "/contexts/a%2Fb%20c", `{"name":" Letters ","pinned":true}`)
	if one.Name != "Letters" || !one.Pinned || one.LastPrompt != "hello" || one.LastStatus != "queued" {
		t.Fatalf("named: %+v", one)
	}
	if r.call(200, &list, "GET", "/contexts?pinned=true&q=LETT", ""); len(list) != 1 || list[0].ID != "a/b c" {
		t.Fatalf("found: %+v", list)
	}
	r.fails(404, "not_found", "PATCH", "/contexts/nobody", `{"pinned":true}`)
	r.fails(400, "invalid_request", "PATCH", "/contexts/a%2Fb%20c", `{"title":"x"}`)
	r.fails(400, "invalid_request", "GET", "/contexts?limit=0", "")
}
