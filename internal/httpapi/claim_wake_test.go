package httpapi_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

func TestADelayedTaskWakesWhenItIsDue(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	out := make(chan claimed, 1)
	r.claiming(out, "w1", `{"instance_id":"i","max":1,"wait_sec":60}`)
	due := time.Now().Add(150 * time.Millisecond).UnixMilli()
	r.task(fmt.Sprintf(`,"run_at":%d`, due))
	got := <-out
	if len(got.Leases) != 1 || got.Leases[0].Lease.StartedAt < due {
		t.Fatalf("claimed %+v, due at %d", got, due)
	}
}

func TestAnOrphanedContextStartsElsewhereAfterTheGrace(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("home", 2)
	first := r.task("")
	l := r.lease(first.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+first.ID+"/complete", `{"lease_id":"`+l.Lease.ID+`","status":"success","output":""}`)
	r.worker("other", 1)
	out := make(chan claimed, 1)
	r.claiming(out, "other", `{"instance_id":"i","max":1,"wait_sec":60}`)
	r.task("") // the same context: reserved for home, which never claims
	if got := <-out; len(got.Leases) != 1 || got.worker != "other" {
		t.Fatalf("claimed %+v", got)
	}
}

func TestAnOrderedTaskWakesWhenTheOneBeforeItEnds(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 2)
	first := r.task(`,"policy":{"ordered":true}`)
	second := r.task(`,"policy":{"ordered":true}`)
	var res bloom.ClaimResult
	r.call(200, &res, "POST", "/workers/w1/claim", `{"instance_id":"i","max":2}`)
	if len(res.Leases) != 1 || res.Leases[0].Task.ID != first.ID {
		t.Fatalf("claimed %+v", res)
	}
	lease := res.Leases[0].Lease.ID
	out := make(chan claimed, 1)
	r.claiming(out, "w1", `{"instance_id":"i","max":1,"wait_sec":60,"held":["`+lease+`"]}`)
	r.call(200, nil, "POST", "/llm-tasks/"+first.ID+"/complete", `{"lease_id":"`+lease+`","status":"success","output":""}`)
	if got := <-out; len(got.Leases) != 1 || got.Leases[0].Task.ID != second.ID {
		t.Fatalf("then claimed %+v", got)
	}
}

func TestAPostedTaskWakesTheWaitingWorker(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	out := make(chan claimed, 1)
	r.claiming(out, "w1", `{"instance_id":"i","max":1,"wait_sec":60}`)
	task := r.task("")
	got := <-out
	if len(got.Leases) != 1 || got.Leases[0].Task.ID != task.ID || got.Leases[0].Lease.WorkerID != "w1" {
		t.Fatalf("claimed %+v", got)
	}
	// Until the worker names the lease, it is sent again.
	var again bloom.ClaimResult
	r.call(200, &again, "POST", "/workers/w1/claim", `{"instance_id":"i","max":0}`)
	if len(again.Leases) != 1 {
		t.Fatalf("a lost answer was not repeated: %+v", again)
	}
	a := r.call(200, &again, "POST", "/workers/w1/claim", `{"instance_id":"i","max":0,"held":["`+again.Leases[0].Lease.ID+`"]}`)
	if len(again.Renewed) != 1 || again.Leases == nil || again.Lost == nil || again.Cancel == nil {
		t.Fatalf("renewal answers %s", a.body)
	}
}

func TestOnlyAMatchingWorkerIsWoken(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("plain", 1)
	r.worker("gpu", 1, "gpu")
	out := make(chan claimed, 2)
	r.claiming(out, "plain", `{"instance_id":"i","max":1,"wait_sec":60}`)
	r.claiming(out, "gpu", `{"instance_id":"i","max":1,"wait_sec":60}`)
	r.task(`,"labels":["gpu"]`)
	if got := <-out; got.worker != "gpu" || len(got.Leases) != 1 {
		t.Fatalf("the gpu task went to %+v", got)
	}
	r.waiting(1)
	r.task("")
	if got := <-out; got.worker != "plain" || len(got.Leases) != 1 {
		t.Fatalf("the plain task went to %+v", got)
	}
}

func TestManyWaitingWorkersShareManyTasks(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const n = 20
	out := make(chan claimed, n)
	for i := range n {
		name := fmt.Sprintf("w%02d", i)
		r.worker(name, 1)
		r.claiming(out, name, `{"instance_id":"i","max":1,"wait_sec":60}`)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			body := fmt.Sprintf(`{"context_id":"c%d","agent_slug":"a","prompt":"p"}`, i)
			if a := r.do("POST", "/api/runtime/llm-tasks", body); a.status != 201 {
				t.Errorf("post: %d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for range n {
		got := <-out
		if len(got.Leases) != 1 || seen[got.Leases[0].Task.ID] {
			t.Fatalf("a worker got %+v", got)
		}
		seen[got.Leases[0].Task.ID] = true
	}
}
