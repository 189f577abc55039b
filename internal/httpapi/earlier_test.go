package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
)

// These tests cover what clients of the earlier Node implementation send and expect.

func TestATaskIsDispatched(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task := r.task("")
	type dispatched struct {
		Dispatched *bool   `json:"dispatched"`
		TaskID     string  `json:"task_id"`
		WorkerID   *string `json:"worker_id"`
		LeaseID    *string `json:"lease_id"`
	}
	var d dispatched
	for _, body := range []string{"", "{}", `{"worker_id":"w"}`} {
		d = dispatched{}
		a := r.call(200, &d, "POST", "/llm-tasks/"+task.ID+"/dispatch", body)
		if d.Dispatched == nil || !*d.Dispatched || d.TaskID != task.ID || d.WorkerID != nil || d.LeaseID != nil ||
			!strings.Contains(string(a.body), `"worker_id":null,"lease_id":null`) {
			t.Fatalf("while it waits: %s", a.body)
		}
	}
	r.worker("w", 1)
	l := r.lease(task.ID)
	r.call(200, &d, "POST", "/llm-tasks/"+task.ID+"/dispatch", "")
	if d.WorkerID == nil || *d.WorkerID != "w" || d.LeaseID == nil || *d.LeaseID != l.Lease.ID {
		t.Fatalf("while it is held: %+v", d)
	}
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":""}`)
	r.fails(409, "conflict", "POST", "/llm-tasks/"+task.ID+"/dispatch", "")
	r.fails(404, "not_found", "POST", "/llm-tasks/00000000-0000-7000-8000-000000000000/dispatch", "")
}

func TestWholeNumbersMayHaveAFraction(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task := r.task(`,"policy":{"timeout_sec":120.0,"budget":1e3},"max_attempts":2.0,"priority":-5.00,"run_at":0.0,"labels":["1.0","\\",  "a\"2.0"]`)
	if task.Policy.TimeoutSec != 120 || task.Policy.Budget != 1000 || task.MaxAttempts != 2 || task.Priority != -5 || strings.Join(task.Labels, "|") != `1.0|\|a"2.0` {
		t.Fatalf("%+v", task)
	}
	var w bloom.Worker
	r.call(201, &w, "POST", "/workers", `{"name":"w","capabilities":{"max_concurrency":4.0,"labels":["1.0","\\","a\"2.0"]}}`)
	if w.Capabilities.MaxConcurrency != 4 {
		t.Fatalf("%+v", w.Capabilities)
	}
	var l leased
	r.call(201, &l, "POST", "/llm-tasks/"+task.ID+"/lease", `{"ttl_seconds":60.0}`)
	if l.Lease.TTLSeconds != 60 {
		t.Fatalf("%+v", l.Lease)
	}
	r.call(200, nil, "POST", "/workers/w/claim", `{"max":0.0,"wait_sec":0.0,"held":["`+l.Lease.ID+`"]}`)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/events?lease_id="+l.Lease.ID, `{"seq":1.0,"type":"text","at":5.0,"data":{"n":1.5}}`)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":"","metrics":{"duration_ms":12.0,"tokens_used":7.0,"cost_usd":0.5}}`)
	for _, wrong := range []string{`120.5`, `"120"`, `1e400`, `1.0e`, `--1`} {
		r.fails(400, "invalid_request", "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p","policy":{"timeout_sec":`+wrong+`}}`)
	}
}

func TestUnreportedFactsOfAWorkerAreUnknown(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for _, body := range []string{`{"name":"w"}`, `{"name":"w","agent_version":"","install_method":null}`} {
		a := r.do("POST", "/api/runtime/workers", body)
		var w map[string]any
		must(t, json.Unmarshal(a.body, &w))
		count, there := w["obs_count"]
		if w["agent_version"] != "unknown" || w["install_method"] != "manual" || count != nil || !there {
			t.Errorf("%s", a.body)
		}
	}
}

func TestTheAuditNamesWhoAndTheLease(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task, lease := r.victim()
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":"","lease_id":"`+lease.ID+`"}`)
	r.key = adminKey
	other := r.task("")
	r.key = workerKey
	var res bloom.ClaimResult
	r.call(200, &res, "POST", "/workers/victim/claim", `{"instance_id":"its-own-secret","max":1}`)
	r.call(200, nil, "POST", "/llm-tasks/"+other.ID+"/release", `{"lease_id":"`+res.Leases[0].Lease.ID+`"}`)
	r.key = adminKey
	var entries []bloom.Audit
	r.call(200, &entries, "GET", "/audit", "")
	want := map[string]string{
		bloom.ActionTaskCreated: "admin", bloom.ActionTaskLeased: "victim", bloom.ActionTaskCompleted: "victim",
		bloom.ActionTaskReleased: "victim", bloom.ActionWorkerRegistered: "victim",
	}
	for _, e := range entries {
		if who, there := want[e.Action]; there && e.Actor != who {
			t.Errorf("%s by %q, want %q", e.Action, e.Actor, who)
		}
		if e.Action == bloom.ActionTaskLeased && e.EntityID == task.ID && !strings.Contains(string(e.Data), lease.ID) {
			t.Errorf("a lease's entry does not name it: %s", e.Data)
		}
	}
}
