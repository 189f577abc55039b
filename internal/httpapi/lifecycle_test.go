package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/timing"
)

func TestATaskFromPostToResult(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	if task.Status != bloom.TaskQueued || task.LeaseID != nil || task.Policy.TimeoutSec != 1800 || task.MaxAttempts != 3 || task.DesiredFormat != "text" {
		t.Fatalf("a new task is %+v", task)
	}
	l := r.lease(task.ID)
	if l.Worker.ID != "w1" || l.Lease.TTLSeconds != 300 || l.Lease.Epoch != 1 {
		t.Fatalf("leased %+v", l)
	}
	f := r.fails(http.StatusConflict, "conflict", "POST", "/llm-tasks/"+task.ID+"/lease", "")
	if f.Message != "Task status is 'leased', expected 'queued'" {
		t.Fatalf("a second lease says %q", f.Message)
	}
	var heartbeat bloom.HeartbeatResult
	r.call(200, &heartbeat, "POST", "/llm-tasks/"+task.ID+"/heartbeat", `{"lease_id":"`+l.Lease.ID+`"}`)
	if heartbeat.Lease.ID != l.Lease.ID || heartbeat.ExpiresAt < l.Lease.ExpiresAt || heartbeat.CancelRequested {
		t.Fatalf("heartbeat %+v", heartbeat)
	}
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/heartbeat", "")
	body := `{"lease_id":"` + l.Lease.ID + `","status":"success","output":"hello","metrics":{"duration_ms":5,"tokens_used":7}}`
	var done, again bloom.Completed
	r.call(200, &done, "POST", "/llm-tasks/"+task.ID+"/complete", body)
	r.call(200, &again, "POST", "/llm-tasks/"+task.ID+"/complete", body)
	if diff := cmp.Diff(done, again); diff != "" {
		t.Fatalf("the same completion answers differently:\n%s", diff)
	}
	if done.Task.Status != bloom.TaskCompleted || *done.Result.Output != "hello" || *done.Artifact.Content != "hello" || done.Artifact.Size != 5 {
		t.Fatalf("completed %+v", done)
	}
	r.fails(http.StatusConflict, "already_completed", "POST", "/llm-tasks/"+task.ID+"/complete", strings.Replace(body, "hello", "other", 1))
	var results []bloom.Result
	r.call(200, &results, "GET", "/llm-tasks/"+task.ID+"/results", "")
	if len(results) != 1 || *results[0].Output != "hello" {
		t.Fatalf("results %+v", results)
	}
	var stats bloom.Stats
	r.call(200, &stats, "GET", "/stats", "")
	if stats.Tasks.Total != 1 || stats.Tasks.ByStatus[bloom.TaskCompleted] != 1 || stats.Leases.Active != 0 || stats.Workers.Online != 1 {
		t.Fatalf("stats %+v", stats)
	}
}

func TestAnEarlierClientWithoutALeaseID(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	r.fails(404, "not_found", "POST", "/llm-tasks/"+task.ID+"/heartbeat", "{}")
	r.fails(409, "", "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":""}`)
	r.lease(task.ID)
	var done bloom.Completed
	r.call(200, &done, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"error","error_message":"broke","output":null}`)
	if done.Task.Status != bloom.TaskFailed || done.Artifact.ID == "" || done.Artifact.Content != nil {
		t.Fatalf("failed as %+v", done)
	}
	r.fails(409, "", "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"error","error_message":"broke"}`)
	var back bloom.Task
	r.call(200, &back, "POST", "/llm-tasks/"+task.ID+"/requeue", "")
	if back.Status != bloom.TaskQueued || back.Attempts != 0 || back.LeaseID != nil {
		t.Fatalf("requeued as %+v", back)
	}
	r.fails(409, "conflict", "POST", "/llm-tasks/"+task.ID+"/requeue", "")
}

func TestLeasingWithoutAWorker(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task := r.task("")
	f := r.fails(http.StatusServiceUnavailable, "no_worker", "POST", "/llm-tasks/"+task.ID+"/lease", "{}")
	if f.Message != "No available worker with free capacity" {
		t.Fatalf("says %q", f.Message)
	}
	if f := r.fails(404, "not_found", "POST", "/llm-tasks/"+task.ID+"/lease", `{"worker_id":"ghost"}`); f.Message != "Worker not found" {
		t.Fatalf("says %q", f.Message)
	}
	if f := r.fails(404, "not_found", "GET", "/llm-tasks/"+strings.Repeat("0", 36), ""); f.Message != "Task not found" {
		t.Fatalf("says %q", f.Message)
	}
	if f := r.fails(404, "not_found", "GET", "/workers/ghost", ""); f.Message != "Worker not found" {
		t.Fatalf("says %q", f.Message)
	}
}

func TestFiftyPostsWithOneKeyMakeOneTask(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	ids := make([]string, 50)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			a := r.do("POST", "/api/runtime/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p"}`, "Idempotency-Key", "once")
			var task bloom.Task
			if a.status != 201 || json.Unmarshal(a.body, &task) != nil {
				t.Errorf("status %d: %s", a.status, a.body)
			}
			ids[i] = task.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("posts with one key made several tasks: %v", ids)
		}
	}
	r.fails(409, "idempotency_mismatch", "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"other","idempotency_key":"once"}`)
	// Defaults given explicitly or omitted make the same body.
	r.call(201, nil, "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p","idempotency_key":"once","max_attempts":3,"labels":null,"policy":{"timeout_sec":1800}}`)
	r.fails(400, "invalid_request", "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p","idempotency_key":"one"}`, "Idempotency-Key", "two")
}

func TestReleaseRefundsAndCancelStops(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	l := r.lease(task.ID)
	var back bloom.Task
	r.call(200, &back, "POST", "/llm-tasks/"+task.ID+"/release", `{"lease_id":"`+l.Lease.ID+`","reason":"draining"}`)
	if back.Status != bloom.TaskQueued || back.Attempts != 0 {
		t.Fatalf("released as %+v", back)
	}
	// The audit entry of a release shows until when the task is delayed.
	delayed, later := r.task(""), timing.Millis(time.Now().Add(time.Hour))
	held := r.lease(delayed.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+delayed.ID+"/release", fmt.Sprintf(`{"lease_id":%q,"reason":"limited","not_before":%d}`, held.Lease.ID, later))
	for id, want := range map[string]int64{task.ID: 0, delayed.ID: later} {
		var entries []bloom.Audit
		var state audit.TaskState
		r.call(200, &entries, "GET", "/audit?action=task_released&entity_id="+id, "")
		if len(entries) != 1 || json.Unmarshal(entries[0].Data, &state) != nil || state.RunAt != want {
			t.Errorf("the release is audited as %+v, want run_at %d", entries, want)
		}
	}
	l = r.lease(task.ID)
	r.call(200, &back, "POST", "/llm-tasks/"+task.ID+"/cancel", "")
	if back.Status != bloom.TaskLeased || !back.CancelRequested {
		t.Fatalf("cancel of a held task: %+v", back)
	}
	var heartbeat bloom.HeartbeatResult
	r.call(200, &heartbeat, "POST", "/llm-tasks/"+task.ID+"/heartbeat", `{"lease_id":"`+l.Lease.ID+`"}`)
	if !heartbeat.CancelRequested {
		t.Fatal("the heartbeat does not report the cancel")
	}
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"lease_id":"`+l.Lease.ID+`","status":"error","error_message":"stopped"}`)
	r.call(200, &back, "GET", "/llm-tasks/"+task.ID, "")
	if back.Status != bloom.TaskCancelled {
		t.Fatalf("ended as %s", back.Status)
	}
	r.fails(409, "conflict", "POST", "/llm-tasks/"+task.ID+"/cancel", "")
}

func TestAStaleLeaseChangesNothingAndIsAudited(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	old := r.lease(task.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/release", `{"lease_id":"`+old.Lease.ID+`"}`)
	r.lease(task.ID)
	named := `{"lease_id":"` + old.Lease.ID + `"`
	r.fails(409, "lease_lost", "POST", "/llm-tasks/"+task.ID+"/heartbeat", named+`}`)
	r.fails(409, "lease_lost", "POST", "/llm-tasks/"+task.ID+"/complete", named+`,"status":"success","output":"late"}`)
	r.fails(409, "lease_lost", "POST", "/llm-tasks/"+task.ID+"/release", named+`}`)
	r.fails(409, "lease_lost", "POST", "/llm-tasks/"+task.ID+"/events?lease_id="+old.Lease.ID, `{"seq":1,"type":"text","at":1,"data":{}}`)
	var audit []bloom.Audit
	r.call(200, &audit, "GET", "/audit?action=lease_lost&entity_id="+task.ID, "")
	if len(audit) != 1 || !strings.Contains(string(audit[0].Data), old.Lease.ID) {
		t.Fatalf("audit of the refusal: %+v", audit)
	}
}

func TestWorkersComeAndGo(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 2, "gpu")
	r.call(200, nil, "POST", "/workers", `{"name":"w1","capabilities":{"max_concurrency":1},"status":null}`)
	var w struct {
		bloom.Worker
		Leases []bloom.Lease `json:"leases"`
	}
	task := r.task("")
	r.lease(task.ID)
	r.call(200, &w, "GET", "/workers/w1", "")
	if w.ActiveLeases != 1 || len(w.Leases) != 1 || w.Leases[0].TaskID != task.ID {
		t.Fatalf("worker %+v", w)
	}
	var all []bloom.Worker
	r.call(200, &all, "GET", "/workers", "")
	if len(all) != 1 || all[0].ActiveLeases != 1 {
		t.Fatalf("workers %+v", all)
	}
	a := r.call(200, nil, "DELETE", "/workers/w1", "")
	if got := strings.TrimSpace(string(a.body)); got != `{"removed":true,"id":"w1"}` {
		t.Fatalf("removal answers %s", got)
	}
	var back bloom.Task
	r.call(200, &back, "GET", "/llm-tasks/"+task.ID, "")
	if back.Status != bloom.TaskQueued {
		t.Fatalf("the removed worker's task is %s", back.Status)
	}
	r.fails(404, "not_found", "DELETE", "/workers/w1", "")
}

func TestALeaseLastsUntilItsWorkersLastReport(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 2)
	ended := map[string]string{
		"complete": `{"lease_id":%q,"status":"success","output":"done"}`,
		"release":  `{"lease_id":%q,"reason":"draining"}`,
	}
	held := map[string]bloom.Lease{}
	for end := range ended {
		held[end] = r.lease(r.task("").ID).Lease
	}
	r.clock.by.Add(int64(7 * time.Second))
	for end, body := range ended {
		r.call(200, nil, "POST", "/llm-tasks/"+held[end].TaskID+"/"+end, fmt.Sprintf(body, held[end].ID))
	}
	var leases []bloom.Lease
	r.call(200, &leases, "GET", "/leases?status=released", "")
	for _, l := range leases {
		if l.LastHeartbeat-l.StartedAt < 7000 {
			t.Errorf("a lease held for 7 s seems to have lasted %d ms", l.LastHeartbeat-l.StartedAt)
		}
	}
	if len(leases) != len(ended) {
		t.Errorf("%d leases were released, want %d", len(leases), len(ended))
	}
}
