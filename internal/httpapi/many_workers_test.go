package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

// A stolen worker key must not fill the list of workers.
func TestAWorkersKeyCannotFillTheListOfWorkers(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { d.MaxWorkers = 20 })
	as := []string{"X-Runtime-API-Key", workerKey}
	list := func(n, long int) string {
		return strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("a", long)+`",`, n), ",")
	}
	for name, body := range map[string]string{
		"a long label":            `{"name":"w1","capabilities":{"labels":[` + list(1, 129) + `]}}`,
		"a long address":          `{"name":"w1","ip_addrs":[` + list(1, 129) + `]}`,
		"lists too long together": `{"name":"w1","agents":[` + list(256, 60) + `],"ip_addrs":[` + list(64, 20) + `]}`,
	} {
		if f := r.fails(400, "invalid_request", "POST", "/workers", body, as...); len(f.Details) != 1 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	long := `,"agents":[` + list(128, 120) + `]`
	agents := func(name string) (n int) {
		var w bloom.Worker
		r.call(200, &w, "GET", "/workers/"+name, "")
		return bloom.ListBytes(w.Agents)
	}
	for i := range 20 {
		r.call(201, nil, "POST", "/workers", fmt.Sprintf(`{"name":"w%d"%s}`, i, long), as...)
	}
	if few, many := agents("w1"), agents("w2"); few != 128*120 || many == 0 || many > 2048 {
		t.Errorf("the agents of a second worker have %d bytes, those of one of many %d", few, many)
	}
	if f := r.fails(409, "conflict", "POST", "/workers", `{"name":"one more"}`, as...); !strings.Contains(f.Message, "20 workers") {
		t.Errorf("the refusal is %q", f.Message)
	}
	r.fails(400, "invalid_request", "POST", "/workers", `{"name":"w1","capabilities":{"labels":[`+list(64, 60)+`]}}`, as...)
	r.call(200, nil, "POST", "/workers", `{"name":"w1"`+long+`}`, as...)
	if n := agents("w1"); n > 2048 {
		t.Errorf("registered again, its agents have %d bytes", n)
	}
	r.call(201, nil, "POST", "/workers", `{"name":"of an admin"`+long+`}`)
	for _, name := range []string{"of%20an%20admin", "w2"} {
		r.call(200, nil, "DELETE", "/workers/"+name, "")
	}
	r.call(201, nil, "POST", "/workers", `{"name":"one more"}`, as...)
	var all []bloom.Worker
	if r.call(200, &all, "GET", "/workers", ""); len(all) != 20 {
		t.Errorf("%d workers", len(all))
	}
}

// Lists of workers have no pages, but are read and sent in parts.
func TestAListOfManyWorkersIsWhole(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	var none []bloom.Worker
	if a := r.call(200, &none, "GET", "/workers", ""); none == nil || len(none) != 0 {
		t.Errorf("no workers are %s", a.body)
	}
	for n, want := 0, 0; n < 129; n++ {
		r.call(201, nil, "POST", "/workers", fmt.Sprintf(`{"name":"w%03d"}`, n))
		if want++; want != 1 && want != 64 && want != 65 && want != 128 && want != 129 {
			continue
		}
		var all []bloom.Worker
		r.call(200, &all, "GET", "/workers", "")
		if len(all) != want {
			t.Fatalf("%d of %d workers are in the list", len(all), want)
		}
		for i, w := range all {
			if w.ID != fmt.Sprintf("w%03d", i) {
				t.Errorf("worker %d is %s", i, w.ID)
			}
		}
	}
}
