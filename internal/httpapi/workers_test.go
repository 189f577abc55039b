package httpapi_test

import (
	"encoding/json"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

func TestARegistrationThatNamesLessKeepsWhatWasKnown(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const full = `{"name":"w","url":"http://w:1","capabilities":{"claude_cli":false,"max_concurrency":4,"labels":["gpu"]},` +
		`"ip_addrs":["127.0.0.2"],"agent_version":"1","os_info":"linux","install_method":"by hand"}`
	var first bloom.Worker
	r.call(201, &first, "POST", "/workers", full)
	for _, body := range []string{
		`{"name":"w"}`, `{"name":"w","url":"","ip_addrs":null,"agent_version":"","capabilities":{"labels":null}}`,
		`{"name":"w","capabilities":{"max_concurrency":4}}`,
	} {
		var again bloom.Worker
		r.call(200, &again, "POST", "/workers", body)
		again.LastHeartbeat = first.LastHeartbeat
		if string(storable.MustJSON(again)) != string(storable.MustJSON(first)) {
			t.Errorf("after %s:\n%s\nbefore:\n%s", body, storable.MustJSON(again), storable.MustJSON(first))
		}
	}
	var now bloom.Worker
	r.call(200, &now, "POST", "/workers", `{"name":"w","capabilities":{"claude_cli":true,"labels":[]},"os_info":"plan9"}`)
	if c := now.Capabilities; !c.ClaudeCLI || c.MaxConcurrency != 4 || len(c.Labels) != 0 || now.OSInfo != "plan9" || now.URL != "http://w:1" {
		t.Errorf("after a change: %s", storable.MustJSON(now))
	}
	// After it was removed, it starts without the old values.
	r.call(200, nil, "DELETE", "/workers/w", "")
	r.call(201, &now, "POST", "/workers", `{"name":"w"}`)
	if c := now.Capabilities; !c.ClaudeCLI || c.MaxConcurrency != 1 || now.URL != "" || now.OSInfo != "" {
		t.Errorf("after the removal: %s", storable.MustJSON(now))
	}
}

func TestAWorkerIsUndrainedWhereItWasDrained(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for _, step := range []struct {
		path, key, body    string
		atRuntime, atOther bool
	}{
		{"", workerKey, `{"name":"w"}`, false, false},
		{"", workerKey, `{"name":"w","draining":true}`, false, true},
		{"", workerKey, `{"name":"w"}`, false, true},
		{"/w/drain", adminKey, `{"drain":false}`, false, true},
		{"", workerKey, `{"name":"w","draining":false}`, false, false},
		{"/w/drain", adminKey, `{"drain":true}`, true, false},
		{"", workerKey, `{"name":"w","draining":false,"drain_order":9000000000000}`, true, false}, // from an older worker
		{"", workerKey, `{"name":"w","draining":true}`, true, true},
		{"/w/drain", adminKey, `{"drain":false}`, false, true},
		{"", workerKey, `{"name":"w","instance_id":"another"}`, false, true},
		{"", workerKey, `{"name":"w","instance_id":"another","draining":false}`, false, false},
	} {
		var w struct {
			Draining  *bool `json:"draining"`
			AtRuntime *bool `json:"runtime_drain"`
			AtOther   *bool `json:"membridge_drain"`
		}
		r.key = step.key
		a := r.do("POST", "/api/runtime/workers"+step.path, step.body)
		must(t, json.Unmarshal(a.body, &w))
		if a.status > 299 || *w.AtRuntime != step.atRuntime || *w.AtOther != step.atOther || *w.Draining != (step.atRuntime || step.atOther) {
			t.Errorf("after %s %s: %d %s", step.path, step.body, a.status, a.body)
		}
	}
	var entries []bloom.Audit
	r.key = adminKey
	r.call(200, &entries, "GET", "/audit?action="+audit.ActionWorkerDrain, "")
	if len(entries) != 2 {
		t.Errorf("audit %+v", entries)
	}
}
