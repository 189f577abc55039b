package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

func TestAKeyBoundToAWorkerActsAsThatWorkerAlone(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	bound := r.newKey(auth.RoleWorker, `,"worker_id":"w2"`).Key
	r.worker("w1", 1)
	r.worker("w2", 1)
	task := r.task("")
	lease := r.lease(task.ID)
	at, names := "/llm-tasks/"+task.ID, `{"lease_id":"`+lease.Lease.ID+`"`
	other := "w1"
	if lease.Worker.ID == "w2" {
		bound = r.newKey(auth.RoleWorker, `,"worker_id":"w1"`).Key
		other = "w2"
	}
	r.key = bound
	r.fails(403, "forbidden", "POST", "/workers", `{"name":"`+other+`"}`)
	r.fails(403, "forbidden", "POST", "/workers/"+other+"/claim", `{}`)
	r.fails(403, "forbidden", "POST", at+"/heartbeat", names+`}`)
	r.fails(403, "forbidden", "POST", at+"/release", names+`}`)
	r.fails(403, "forbidden", "POST", at+"/complete", names+`,"status":"success","output":"","metrics":{"duration_ms":1}}`)
	r.fails(403, "forbidden", "POST", at+"/events?lease_id="+lease.Lease.ID, `{"seq":1,"type":"text","at":1,"data":{}}`, "Content-Type", "application/x-ndjson")
}

func TestRefusedChangesAreInTheAudit(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.Limits{})) // so that its clock stands still
	viewer := r.newKey(auth.RoleViewer)
	r.fails(403, "forbidden", "POST", "/llm-tasks", `{}`, auth.HeaderKey, viewer.Key)
	for range 100 {
		r.fails(401, "unauthorized", "POST", "/llm-tasks", `{}`, auth.HeaderKey, "not-a-key-0123456789")
	}
	var entries []bloom.Audit
	r.call(200, &entries, "GET", "/audit?action=request_refused", "")
	if len(entries) < 2 || len(entries) > 10 {
		t.Fatalf("%d refusals are in the audit", len(entries))
	}
	first := entries[len(entries)-1]
	if first.Actor != "viewer" || first.KeyID != viewer.ID || first.Address != "127.0.0.1" || !strings.Contains(first.EntityID, "POST /api/runtime/llm-tasks") {
		t.Errorf("%+v", first)
	}
	if entries[0].Actor != "anonymous" {
		t.Errorf("%+v", entries[0])
	}
}

// A worker key chooses the worker's name: in the audit the name must never look like another actor.
func TestAWorkersNameIsNeverAnotherActorInTheAudit(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	worker := r.newKey(auth.RoleWorker)
	for _, name := range []string{"admin", "Membridge", "w1"} {
		r.call(201, nil, "POST", "/workers", `{"name":"`+name+`"}`, auth.HeaderKey, worker.Key)
	}
	r.call(201, nil, "POST", "/workers", `{"name":"w2"}`)
	var entries []bloom.Audit
	r.call(200, &entries, "GET", "/audit?action=worker_registered", "")
	var actors []string
	for _, e := range entries {
		actors = append(actors, e.Actor+" by "+e.KeyID)
	}
	want := []string{"admin by " + auth.AdminKeyID, "w1 by " + worker.ID, "worker Membridge by " + worker.ID, "worker admin by " + worker.ID}
	if diff := cmp.Diff(want, actors); diff != "" {
		t.Error(diff)
	}
}

// A misspelt restriction must not create an unrestricted key.
func TestAKeyWithAnUnknownFieldIsNotCreated(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	f := r.fails(400, "invalid_request", "POST", "/keys", `{"name":"k","role":"worker","worker":"w1"}`)
	if !strings.Contains(f.Message, "worker_id") || strings.Contains(f.Message, `"worker"`) {
		t.Errorf("refused with %q", f.Message)
	}
	r.fails(400, "invalid_request", "POST", "/keys", `[]`)
	r.fails(400, "invalid_request", "POST", "/keys", `{"name":"k","role":"nobody"}`)
	var keys []bloom.APIKey
	if r.call(200, &keys, "GET", "/keys", ""); len(keys) != 0 {
		t.Errorf("made %+v", keys)
	}
	var k bloom.CreatedKey
	r.call(201, &k, "POST", "/keys", `{"name":"k","role":"worker","worker_id":"w1","expires_at":null}`)
	if k.WorkerID == nil || *k.WorkerID != "w1" || k.ExpiresAt != nil {
		t.Errorf("made %+v", k)
	}
}
