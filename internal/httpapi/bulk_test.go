package httpapi_test

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
)

func TestBulkAnswersForEachTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bulk := func(op string, ids ...string) []bloom.TaskOutcome {
		t.Helper()
		var out bloom.TaskOutcomes
		r.call(200, &out, "POST", "/llm-tasks/"+op, string(bloom.MustJSON(bloom.TaskIDs{IDs: ids})))
		return out.Results
	}
	want := func(got, want bloom.TaskOutcome) {
		t.Helper()
		if got.Error == "" == !want.OK {
			t.Errorf("%+v: a sentence goes with a refusal, and with nothing else", got)
		}
		got.Error = ""
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	r.worker("w1", 1)
	held, done, unknown := r.task(""), r.task(""), strings.Repeat("0", 36)
	r.lease(done.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+done.ID+"/complete", `{"status":"success","output":"x"}`)
	r.lease(held.ID)
	ids := []string{held.ID, done.ID, unknown, held.ID}
	for range 100 {
		ids = append(ids, r.task("").ID)
	}
	got := bulk("cancel", ids...)
	if len(got) != 103 {
		t.Fatalf("%d outcomes, want 103", len(got))
	}
	want(got[0], bloom.TaskOutcome{ID: held.ID, OK: true, Status: bloom.TaskLeased})
	want(got[1], bloom.TaskOutcome{ID: done.ID, Code: bloom.CodeConflict})
	want(got[2], bloom.TaskOutcome{ID: unknown, Code: bloom.CodeNotFound})
	for i, o := range got[3:] {
		want(o, bloom.TaskOutcome{ID: ids[i+4], OK: true, Status: bloom.TaskCancelled})
	}
	got = bulk("requeue", held.ID, ids[4])
	want(got[0], bloom.TaskOutcome{ID: held.ID, Code: bloom.CodeConflict})
	want(got[1], bloom.TaskOutcome{ID: ids[4], OK: true, Status: bloom.TaskQueued})
	var now bloom.Task
	r.call(200, &now, "GET", "/llm-tasks/"+ids[4], "")
	if now.Status != bloom.TaskQueued {
		t.Errorf("the requeued task is %s", now.Status)
	}
	r.fails(400, "invalid_request", "POST", "/llm-tasks/cancel", `{"ids":[]}`)
	r.fails(400, "invalid_request", "POST", "/llm-tasks/requeue", string(bloom.MustJSON(bloom.TaskIDs{IDs: make([]string, 1001)})))
}
