package httpapi_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/storable"
)

func TestBulkAnswersForEachTask(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	bulk := func(op string, ids ...string) []bloom.TaskOutcome {
		t.Helper()
		var out bloom.TaskOutcomes
		r.call(200, &out, "POST", "/llm-tasks/"+op, string(storable.MustJSON(bloom.TaskIDs{IDs: ids})))
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
	r.fails(400, "invalid_request", "POST", "/llm-tasks/requeue", string(storable.MustJSON(bloom.TaskIDs{IDs: make([]string, 1001)})))
}

func TestBulkChangesAllThatMatch(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	matching := func(op string, m bloom.TasksMatching) bloom.TasksMatched {
		t.Helper()
		var out bloom.TasksMatched
		r.call(200, &out, "POST", "/llm-tasks/"+op+"-matching", string(storable.MustJSON(m)))
		return out
	}
	want := func(what string, got, want bloom.TasksMatched) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	r.worker("w1", 1)
	held, other := r.task(`,"agent_slug":"writer"`), r.task(`,"agent_slug":"reader"`)
	r.lease(held.ID)
	for range 3 {
		r.task(`,"agent_slug":"writer"`)
	}
	writer := bloom.TasksMatching{AgentSlug: "writer"}
	want("counted", matching("cancel", bloom.TasksMatching{AgentSlug: "writer", DryRun: true}), bloom.TasksMatched{Matched: 4})
	want("nothing to requeue", matching("requeue", writer), bloom.TasksMatched{})
	want("of another status", matching("cancel", bloom.TasksMatching{AgentSlug: "writer", Status: bloom.TaskFailed}), bloom.TasksMatched{})
	want("cancelled", matching("cancel", writer), bloom.TasksMatched{Matched: 4, Changed: 4})
	want("asked to stop already", matching("cancel", writer), bloom.TasksMatched{})
	var now bloom.Task
	if r.call(200, &now, "GET", "/llm-tasks/"+other.ID, ""); now.Status != bloom.TaskQueued {
		t.Errorf("a task that does not match is %s", now.Status)
	}
	if r.call(200, &now, "GET", "/llm-tasks/"+held.ID, ""); !now.CancelRequested {
		t.Error("the leased task was not asked to stop")
	}
	want("requeued", matching("requeue", bloom.TasksMatching{Status: bloom.TaskCancelled}), bloom.TasksMatched{Matched: 3, Changed: 3})
	var entries []bloom.Audit
	r.call(200, &entries, "GET", "/audit?action=tasks_matched", "")
	if len(entries) != 2 || entries[1].Detail != `Cancelled 4 of 4 tasks with agent "writer"` || entries[1].EntityID != "cancel" || entries[1].Actor == "" {
		t.Errorf("audited as %+v", entries)
	}
	r.fails(400, "invalid_request", "POST", "/llm-tasks/cancel-matching", `{}`)
	r.fails(400, "invalid_request", "POST", "/llm-tasks/cancel-matching", `{"dry_run":true}`)
	r.fails(400, "invalid_request", "POST", "/llm-tasks/cancel-matching", `{"status":"gone"}`)
	r.fails(400, "invalid_request", "POST", "/llm-tasks/cancel-matching", `{"agent_slug":"writer","next":"failed."}`)
	r.fails(400, "invalid_request", "POST", "/llm-tasks/cancel-matching", `{"agent_slug":"writer","next":"queued.%"}`)
	r.key = r.stored("viewer")
	r.fails(403, "forbidden", "POST", "/llm-tasks/cancel-matching", `{"agent_slug":"writer","dry_run":true}`)
}

func TestBulkGoesOnFromBatchToBatch(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const tasks = bloom.MaxBulkTasks + 200
	var posting sync.WaitGroup
	for range 40 {
		posting.Go(func() {
			for range tasks / 40 {
				_, _, err := r.service.Submit(t.Context(), dispatch.Submission{Actor: "me", Spec: bloom.TaskSpec{ContextID: "many", AgentSlug: "coder", Prompt: "one of many",
					Policy: bloom.Policy{TimeoutSec: 60}, DesiredFormat: bloom.FormatText, MaxAttempts: 1}})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	posting.Wait()
	m, sum := bloom.TasksMatching{Status: bloom.TaskQueued}, bloom.TasksMatched{}
	for batches := 1; ; batches++ {
		var out bloom.TasksMatched
		r.call(200, &out, "POST", "/llm-tasks/cancel-matching", string(storable.MustJSON(m)))
		if out.Matched > bloom.MaxBulkTasks {
			t.Fatalf("%d at once", out.Matched)
		}
		sum.Matched, sum.Changed = sum.Matched+out.Matched, sum.Changed+out.Changed
		if m.Next = out.Next; m.Next == "" {
			break
		}
		if batches > 3 {
			t.Fatal("the batches do not end")
		}
	}
	if sum.Changed != tasks || sum.Matched != tasks {
		t.Errorf("%+v of %d", sum, tasks)
	}
}
