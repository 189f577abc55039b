package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
)

// The fixture's services poll the store only once an hour: a response in these tests is caused by a
// wake-up.

type claimed struct {
	worker string
	bloom.ClaimResult
	status int
}

// claiming starts a long poll and returns once the service has it.
func (r *fixture) claiming(out chan<- claimed, worker, body string) {
	r.t.Helper()
	before := r.service.Waiting()
	req := r.request("POST", "/api/runtime/workers/"+worker+"/claim", body)
	go func() {
		res, err := r.client.Do(req)
		c := claimed{worker: worker}
		if err == nil {
			c.status = res.StatusCode
			_ = json.NewDecoder(res.Body).Decode(&c.ClaimResult)
			res.Body.Close()
		}
		out <- c
	}()
	r.waiting(before + 1)
}

// waiting returns when n long polls are waiting.
func (r *fixture) waiting(n int) {
	r.t.Helper()
	for r.service.Waiting() != n {
		select {
		case <-r.t.Context().Done():
			r.t.Fatal("the poll never began to wait")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestCancelLossAndDrainEndAPoll(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	var first bloom.ClaimResult
	r.call(200, &first, "POST", "/workers/w1/claim", `{"instance_id":"i","max":1}`)
	lease := first.Leases[0].Lease.ID
	poll := `{"instance_id":"i","max":0,"wait_sec":60,"held":["` + lease + `"]}`
	out := make(chan claimed, 1)

	r.claiming(out, "w1", poll)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/cancel", "")
	if got := <-out; len(got.Cancel) != 1 || got.Cancel[0] != lease || len(got.Renewed) != 1 {
		t.Fatalf("cancel reported as %+v", got)
	}
	// It knows about the cancel now: the next poll waits for another change.
	r.claiming(out, "w1", poll)
	r.call(200, nil, "POST", "/workers/w1/drain", `{"drain":true}`)
	if got := <-out; !got.Drain || len(got.Cancel) != 1 {
		t.Fatalf("drain reported as %+v", got)
	}
	r.claiming(out, "w1", poll)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"lease_id":"`+lease+`","status":"error","error_message":"stopped"}`)
	if got := <-out; len(got.Lost) != 1 || got.Lost[0] != lease {
		t.Fatalf("loss reported as %+v", got)
	}
}

func TestALeaseGivenByHandReachesThePollingWorker(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	out := make(chan claimed, 1)
	r.claiming(out, "w1", `{"instance_id":"i","max":0,"wait_sec":60}`)
	task := r.task("")
	l := r.lease(task.ID)
	if got := <-out; len(got.Leases) != 1 || got.Leases[0].Lease.ID != l.Lease.ID {
		t.Fatalf("handed over %+v", got)
	}
}

func TestANewerPollOfTheSameProcessEndsTheOlder(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	old, fresh := make(chan claimed, 1), make(chan claimed, 1)
	r.claiming(old, "w1", `{"instance_id":"i","max":1,"wait_sec":60}`)
	req := r.request("POST", "/api/runtime/workers/w1/claim", `{"instance_id":"i","max":1,"wait_sec":60}`)
	go func() {
		res, err := r.client.Do(req)
		c := claimed{}
		if err == nil {
			_ = json.NewDecoder(res.Body).Decode(&c.ClaimResult)
			res.Body.Close()
		}
		fresh <- c
	}()
	if got := <-old; got.status != 200 || len(got.Leases) != 0 {
		t.Fatalf("the older poll got %+v", got)
	}
	r.waiting(1)
	r.task("")
	if got := <-fresh; len(got.Leases) != 1 {
		t.Fatalf("the newer poll got %+v", got)
	}
}

func TestAWorkerThatDisconnectedLeavesTheTaskToOthers(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	r.worker("w2", 1)
	out := make(chan claimed, 2)
	gone := make(chan claimed, 1)
	r.claiming(gone, "w1", `{"instance_id":"i","max":1,"wait_sec":1}`)
	r.claiming(out, "w2", `{"instance_id":"i","max":1,"wait_sec":60}`)
	if got := <-gone; got.status != http.StatusOK || len(got.Leases) != 0 {
		t.Fatalf("a poll whose time is up got %+v", got)
	}
	r.waiting(1)
	r.task("")
	if got := <-out; len(got.Leases) != 1 {
		t.Fatalf("claimed %+v", got)
	}
}

func TestShutdownEndsPolls(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const n = 10
	out := make(chan claimed, n)
	for i := range n {
		name := fmt.Sprintf("w%d", i)
		r.worker(name, 1)
		r.claiming(out, name, `{"instance_id":"i","max":1,"wait_sec":60}`)
	}
	r.service.Close()
	for range n {
		if got := <-out; got.status != http.StatusOK || got.Leases == nil {
			t.Fatalf("a poll ended with %+v", got)
		}
	}
	r.service.Close()
}

func TestTwoProcessesCannotShareAName(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	r.call(200, nil, "POST", "/workers/w1/claim", `{"instance_id":"one"}`)
	r.fails(409, "worker_conflict", "POST", "/workers/w1/claim", `{"instance_id":"two"}`)
	r.fails(404, "not_found", "POST", "/workers/ghost/claim", `{"instance_id":"two","wait_sec":5}`)
}

// brokenOff serves a claim whose caller disconnects: immediately, or when after is closed. It
// returns when the server has finished with it.
func (r *fixture) brokenOff(after <-chan struct{}, worker, body string) {
	r.t.Helper()
	ctx, leave := context.WithCancel(r.t.Context())
	defer leave()
	if after == nil {
		leave()
	} else {
		go func() {
			<-after
			leave()
		}()
	}
	req := r.request("POST", "/api/runtime/workers/"+worker+"/claim", body).WithContext(ctx)
	req.RemoteAddr = "127.0.0.1:1"
	r.api.ServeHTTP(httptest.NewRecorder(), req)
}

func TestAnInterruptedClaimHarmsNoLease(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 2)
	held := r.lease(r.task("").ID).Lease
	body := `{"instance_id":"i","max":1,"held":["` + held.ID + `"]}`
	open := r.task("")
	r.brokenOff(nil, "w1", body)
	r.clock.by.Add(int64(5 * time.Second))
	var got bloom.ClaimResult
	r.call(200, &got, "POST", "/workers/w1/claim", body)
	if len(got.Renewed) != 1 || got.Renewed[0].ExpiresAt < held.ExpiresAt+5000 || len(got.Lost) != 0 {
		t.Errorf("the lease was not renewed from %d: %+v", held.ExpiresAt, got)
	}
	if len(got.Leases) != 1 || got.Leases[0].Task.ID != open.ID {
		t.Errorf("the open task was not handed out: %+v", got.Leases)
	}
	if log := r.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
		t.Errorf("a caller who left is logged as trouble: %s", log)
	}
}

func TestAnInterruptedPollIsNoWarning(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	interrupt, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		r.brokenOff(interrupt, "w1", `{"instance_id":"i","max":1,"wait_sec":60,"forgotten_after":0}`)
	}()
	r.waiting(1)
	close(interrupt)
	<-over
	if log := r.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
		t.Errorf("a caller who left is logged as trouble: %s", log)
	}
}

// stalledWriter is the response to a reader that reads nothing.
type stalledWriter struct {
	*httptest.ResponseRecorder
	began chan<- struct{}
	end   <-chan struct{}
}

func (w stalledWriter) Write(b []byte) (int, error) {
	w.began <- struct{}{}
	<-w.end
	return len(b), nil
}

func TestTheUnreadAnswersToAWorkersClaimsAreBounded(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	r.lease(r.task("").ID)
	began, end := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for i := range dispatch.MaxPolls {
		req := r.request("POST", "/api/runtime/workers/w1/claim", fmt.Sprintf(`{"instance_id":"i","wait_sec":%d}`, i%2*60))
		req.RemoteAddr = "127.0.0.1:1"
		all.Go(func() { r.api.ServeHTTP(stalledWriter{httptest.NewRecorder(), began, end}, req) })
		<-began
	}
	for _, wait := range []string{"0", "60"} {
		r.fails(429, "rate_limited", "POST", "/workers/w1/claim", `{"instance_id":"i","wait_sec":`+wait+`}`)
	}
	close(end)
	all.Wait()
	r.call(200, nil, "POST", "/workers/w1/claim", `{"instance_id":"i"}`)
}
