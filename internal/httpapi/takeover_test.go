package httpapi_test

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
)

// victim registers a worker with a live process and gives it a running task.
func (r *fixture) victim() (task bloom.Task, lease bloom.Lease) {
	r.t.Helper()
	r.key = workerKey
	r.call(201, nil, "POST", "/workers", `{"name":"victim","instance_id":"its-own-secret","capabilities":{"max_concurrency":2}}`)
	r.key = adminKey
	task = r.task("")
	r.key = workerKey
	var res bloom.ClaimResult
	r.call(200, &res, "POST", "/workers/victim/claim", `{"instance_id":"its-own-secret","max":1}`)
	if len(res.Leases) != 1 {
		r.t.Fatalf("the worker claimed %+v", res)
	}
	return task, res.Leases[0].Lease
}

func TestAWorkerKeyCannotActAsAnotherLiveWorker(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task, lease := r.victim()
	for _, body := range []string{`{"max":1}`, `{"max":0}`, `{"max":1,"wait_sec":1}`, `{"instance_id":"","max":1}`, `{"instance_id":null,"max":1}`, `{"instance_id":"a-guess","max":1}`} {
		f := r.fails(409, bloom.CodeWorkerConflict, "POST", "/workers/victim/claim", body)
		if strings.Contains(f.Message, lease.ID) || strings.Contains(f.Message, task.Prompt) {
			t.Fatalf("the refusal gives away the work: %s", f.Message)
		}
	}
	for _, body := range []string{`{"name":"victim","status":"offline"}`, `{"name":"victim"}`, `{"name":"victim","instance_id":"a-guess"}`, `{"name":"victim","draining":true}`} {
		r.fails(409, bloom.CodeWorkerConflict, "POST", "/workers", body)
	}
	r.key = adminKey
	var w bloom.Worker
	r.call(200, &w, "GET", "/workers/victim", "")
	if w.Status != bloom.WorkerOnline || w.Draining {
		t.Fatalf("the victim is %s, draining %t", w.Status, w.Draining)
	}
	// The worker itself continues.
	r.key = workerKey
	r.call(200, nil, "POST", "/workers", `{"name":"victim","instance_id":"its-own-secret"}`)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":"done","lease_id":"`+lease.ID+`"}`)
}

func TestAWorkerKeyCannotReadAnotherWorkersLease(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task, lease := r.victim()
	for route := range r.api.Policies() {
		method, path, _ := strings.Cut(route, " ")
		if method != "GET" {
			continue
		}
		id := task.ID
		if strings.Contains(path, "/workers/") {
			id = "victim"
		}
		a := r.do(method, strings.NewReplacer("{id}", id, "{cid}", "p").Replace(path), "")
		if strings.Contains(string(a.body), lease.ID) {
			t.Errorf("%s shows the lease to every worker key: %.200s", route, a.body)
		}
	}
	// Operations that return a task or a worker require the lease id.
	for _, step := range []string{"/heartbeat", "/complete", "/release", "/lease", "/cancel", "/requeue"} {
		a := r.do("POST", "/api/runtime/llm-tasks/"+task.ID+step, `{"status":"success","output":""}`)
		if a.status < 400 || strings.Contains(string(a.body), lease.ID) {
			t.Errorf("%s without a lease: %d %s", step, a.status, a.body)
		}
	}
	for _, body := range []string{`{"name":"other","instance_id":"o"}`} {
		a := r.do("POST", "/api/runtime/workers", body)
		b := r.do("POST", "/api/runtime/workers/other/claim", `{"instance_id":"o","max":5,"held":["`+task.ID+`"]}`)
		if strings.Contains(string(a.body)+string(b.body), lease.ID) {
			t.Errorf("another worker is shown the lease: %s %s", a.body, b.body)
		}
	}
}

func TestAnAdminMayActForAWorkerAndCompleteItsActiveLease(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task, lease := r.victim()
	r.key = adminKey
	var res bloom.ClaimResult
	r.call(200, &res, "POST", "/workers/victim/claim", `{"max":0}`)
	if len(res.Leases) != 1 || res.Leases[0].Lease.ID != lease.ID {
		t.Fatalf("an admin is shown %+v", res)
	}
	r.call(200, nil, "POST", "/workers", `{"name":"victim"}`)
	// Without a lease id, like clients of the earlier Node implementation.
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/heartbeat", `{}`)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":"done"}`)
}

func TestAWorkerThatNeverNamedItsProcessGoesOnWithoutDoingSo(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.key = workerKey
	r.call(201, nil, "POST", "/workers", `{"name":"plain"}`)
	r.call(200, nil, "POST", "/workers", `{"name":"plain"}`)
	r.key = adminKey
	r.task("")
	r.key = workerKey
	var res bloom.ClaimResult
	r.call(200, &res, "POST", "/workers/plain/claim", `{"max":1}`)
	if len(res.Leases) != 1 {
		t.Fatalf("claimed %+v", res)
	}
}
