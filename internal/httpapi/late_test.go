package httpapi_test

import (
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

func TestALateOutcomeCountsUntilAnOperatorRequeues(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w", 1)
	dead := func() (path, lease string) {
		t.Helper()
		task := r.task(`,"max_attempts":1`)
		lease = r.lease(task.ID).Lease.ID
		r.clock.by.Add(int64(time.Hour))
		if _, err := r.store.Reap(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		r.call(200, nil, "POST", "/workers", `{"name":"w"}`)
		return "/llm-tasks/" + task.ID, lease
	}
	var done bloom.Completed
	path, lease := dead()
	r.call(200, &done, "POST", path+"/complete", `{"lease_id":"`+lease+`","status":"success","output":"done"}`)
	if done.Task.Status != bloom.TaskCompleted || *done.Task.WorkerID != "w" {
		t.Errorf("the late success of the last attempt left the task %s", done.Task.Status)
	}
	path, lease = dead()
	r.call(200, nil, "POST", path+"/requeue", "")
	r.fails(409, bloom.CodeLeaseLost, "POST", path+"/complete", `{"lease_id":"`+lease+`","status":"error","error_message":"broken"}`)
	var now bloom.Task
	r.call(200, &now, "GET", path, "")
	if now.Status != bloom.TaskQueued {
		t.Errorf("a late error undid the operator: the task is %s", now.Status)
	}
}
