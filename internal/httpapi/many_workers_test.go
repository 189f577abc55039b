package httpapi_test

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

// Whoever has stolen a worker's key must not fill what every list of workers reads.
func TestAWorkersKeyCannotFillTheListOfWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { d.MaxWorkers = 2 })
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
	for _, name := range []string{"w1", "w2"} {
		r.call(201, nil, "POST", "/workers", `{"name":"`+name+`","agents":[`+list(128, 120)+`]}`, as...)
	}
	if f := r.fails(409, "conflict", "POST", "/workers", `{"name":"w3"}`, as...); !strings.Contains(f.Message, "2 workers") {
		t.Errorf("the refusal is %q", f.Message)
	}
	r.call(200, nil, "POST", "/workers", `{"name":"w1"}`, as...)
	r.call(201, nil, "POST", "/workers", `{"name":"w3"}`) // an admin's
	r.call(200, nil, "DELETE", "/workers/w3", "")
	r.call(200, nil, "DELETE", "/workers/w2", "")
	r.call(201, nil, "POST", "/workers", `{"name":"w4"}`, as...)
	var all []bloom.Worker
	if r.call(200, &all, "GET", "/workers", ""); len(all) != 2 {
		t.Errorf("%d workers", len(all))
	}
}
