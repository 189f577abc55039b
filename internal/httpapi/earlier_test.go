package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
)

// These tests cover what clients of the earlier Node implementation send and expect.

func TestATaskIsDispatched(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	type dispatched struct {
		Dispatched *bool   `json:"dispatched"`
		TaskID     string  `json:"task_id"`
		WorkerID   *string `json:"worker_id"`
		LeaseID    *string `json:"lease_id"`
	}
	dispatch := func(task bloom.Task, body string) (d dispatched) {
		t.Helper()
		r.call(200, &d, "POST", "/llm-tasks/"+task.ID+"/dispatch", body)
		if d.Dispatched == nil || !*d.Dispatched || d.TaskID != task.ID {
			t.Fatalf("%s: %+v", body, d)
		}
		return d
	}
	refused := func(task bloom.Task, status int, code, body, why string) {
		t.Helper()
		a := r.fails(status, code, "POST", "/llm-tasks/"+task.ID+"/dispatch", body)
		if !strings.Contains(a.Message, why) {
			t.Errorf("%s: %q does not say %q", body, a.Message, why)
		}
	}
	task := r.task("")
	refused(task, 503, "no_worker", "", "No worker is registered")
	// An agent that membridge or an earlier client registered is online, and claims nothing.
	r.worker("agent", 1)
	refused(task, 503, "no_worker", "{}", "run bloom worker")
	refused(task, 503, "no_worker", `{"worker_id":"agent"}`, "agent does not claim tasks")
	refused(task, 404, "not_found", `{"worker_id":"nobody"}`, "")
	held := r.task("")
	r.call(201, nil, "POST", "/llm-tasks/"+held.ID+"/lease", `{"worker_id":"agent"}`)
	refused(held, 503, "no_worker", "{}", "agent does not claim tasks")
	r.call(200, nil, "POST", "/llm-tasks/"+held.ID+"/heartbeat", "") // somebody runs it
	if d := dispatch(held, ""); d.WorkerID == nil || *d.WorkerID != "agent" {
		t.Errorf("while it is running: %+v", d)
	}

	r.worker("w", 1)
	r.call(200, nil, "POST", "/workers/w/claim", `{"instance_id":"w-1","max":0}`)
	for _, body := range []string{"", "{}", `{"worker_id":null,"lease_id":"x"}`} {
		if d := dispatch(task, body); d.WorkerID != nil || d.LeaseID != nil {
			t.Errorf("while it waits: %+v", d)
		}
	}
	refused(r.task(`,"labels":["gpu"]`), 503, "no_worker", "", "gpu")
	d := dispatch(task, `{"worker_id":"w"}`)
	var now bloom.Task
	r.call(200, &now, "GET", "/llm-tasks/"+task.ID, "")
	if d.WorkerID == nil || *d.WorkerID != "w" || d.LeaseID == nil || now.Status != bloom.TaskLeased || *now.LeaseID != *d.LeaseID {
		t.Fatalf("for a worker: %+v, %+v", d, now)
	}
	if again := dispatch(task, `{"worker_id":"w"}`); *again.LeaseID != *d.LeaseID {
		t.Errorf("again: %+v", again)
	}
	refused(task, 409, "conflict", `{"worker_id":"agent"}`, "held by worker w")
	other := r.task("")
	refused(other, 503, "no_worker", `{"worker_id":"w"}`, "No available worker") // it has no free slot
	dispatch(other, "")                                                          // and will
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":""}`)
	refused(task, 409, "conflict", "", "completed")
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
		audit.ActionTaskCreated: "admin", audit.ActionTaskLeased: "victim", audit.ActionTaskCompleted: "victim",
		audit.ActionTaskReleased: "victim", audit.ActionWorkerRegistered: "victim",
	}
	for _, e := range entries {
		if who, there := want[e.Action]; there && e.Actor != who {
			t.Errorf("%s by %q, want %q", e.Action, e.Actor, who)
		}
		if e.Action == audit.ActionTaskLeased && e.EntityID == task.ID && !strings.Contains(string(e.Data), lease.ID) {
			t.Errorf("a lease's entry does not name it: %s", e.Data)
		}
	}
}
