package httpapi_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/dispatch"
)

func TestFiltersAreSavedForEverybody(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	list := func() (all []bloom.TaskFilter) {
		t.Helper()
		r.call(200, &all, "GET", "/filters", "")
		return all
	}
	if got := list(); got == nil || len(got) != 0 {
		t.Fatalf("at first: %v", got)
	}
	want := bloom.TaskFilter{Name: "мої / dead", Status: bloom.TaskDead, AgentSlug: "writer", Text: "50%",
		Labels: []string{"gpu"}, Within: 86_400, Sort: "-cost", Columns: []string{"status", "prompt"}}
	const at = "/filters/%D0%BC%D0%BE%D1%97%20%2F%20dead"
	var got bloom.TaskFilter
	r.call(200, &got, "PUT", at, `{"name":"another","status":"dead","agent_slug":"writer","q":"50%","labels":["gpu"],"within_sec":86400,"sort":"-cost","columns":["status","prompt"]}`)
	r.call(200, nil, "PUT", "/filters/a", `{}`)
	if all := list(); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(all, []bloom.TaskFilter{{Name: "a"}, want}) {
		t.Errorf("saved %+v, listed %+v, want %+v", got, all, want)
	}
	r.call(200, nil, "PUT", at, `{"status":"failed"}`)
	r.call(200, &got, "GET", at, "")
	if want.Status = bloom.TaskFailed; got.Status != want.Status || got.AgentSlug != "" {
		t.Errorf("saved again: %+v", got)
	}
	r.call(200, nil, "DELETE", at, "")
	r.fails(404, "not_found", "DELETE", at, "")
	r.fails(404, "not_found", "GET", at, "")
	var entries []bloom.Audit
	r.call(200, &entries, "GET", "/audit?entity_id=%D0%BC%D0%BE%D1%97%20%2F%20dead", "")
	if len(entries) != 3 || entries[0].Action != audit.ActionFilterRemoved || entries[2].Actor == "" {
		t.Errorf("audited %+v", entries)
	}
	for name, body := range map[string]string{"x": `{"status":"none"}`, strings.Repeat("n", 65): `{}`, "%20x": `{}`, "y": `{"q":"` + strings.Repeat("x", 513) + `"}`, "z": `[]`} {
		r.fails(400, "invalid_request", "PUT", "/filters/"+name, body)
	}
	for i := range dispatch.MaxFilters - 1 {
		r.call(200, nil, "PUT", fmt.Sprintf("/filters/f%d", i), `{}`)
	}
	r.fails(409, "conflict", "PUT", "/filters/more", `{}`)
	r.call(200, nil, "PUT", "/filters/f0", `{"q":"x"}`)
	if settings, err := r.store.Settings(t.Context()); err != nil || len(settings) != dispatch.MaxFilters {
		t.Errorf("%d settings, %v", len(settings), err)
	}
}
