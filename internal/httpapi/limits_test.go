package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// withLimits sets limits. Their clock stands still: on a slow machine nothing is allowed anew before
// the test has used up what there is.
func withLimits(l httpapi.Limits) fixtureOption {
	return func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		h.Limits, h.Clock = l, standing(time.Now())
	}
}

// limited expects a refusal by a limit, in its complete form.
func (r *fixture) limited(limit, method, path string, headers ...string) {
	r.t.Helper()
	a := r.do(method, path, "", headers...)
	if a.status != http.StatusTooManyRequests || !strings.Contains(string(a.body), `"code":"rate_limited"`) {
		r.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	if a.header.Get("Retry-After") == "" || a.header.Get("RateLimit-Policy") == "" {
		r.t.Fatalf("a 429 with %v", a.header)
	}
	if got := a.header.Get("RateLimit"); !strings.HasPrefix(got, `"`+limit+`";r=0;t=`) {
		r.t.Fatalf("RateLimit is %s, not that of %s", got, limit)
	}
}

func TestCallersWithoutAKeyAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.Limits{Address: 10, SignIn: 20, Key: 100, Worker: 100}))
	viewerKey := r.stored(auth.RoleViewer)
	r.key = ""
	for i, path := range []string{"/api/runtime/health", "/api/runtime/stats", "/nothing", "/openapi.json", "/api/runtime/session"} {
		a := r.do("GET", path, "")
		if got, want := a.header.Get("RateLimit"), fmt.Sprintf(`"address";r=%d;t=`, 9-i); !strings.HasPrefix(got, want) {
			t.Errorf("%s: RateLimit is %s, want %s", path, got, want)
		}
		if got := a.header.Get("RateLimit-Policy"); got != `"address";q=10;w=60` {
			t.Errorf("%s: RateLimit-Policy is %s", path, got)
		}
	}
	for range 5 { // a wrong key counts as none
		r.fails(401, "unauthorized", "GET", "/stats", "", auth.HeaderKey, "not-a-key-0123456789")
	}
	for _, path := range []string{"/api/runtime/health", "/api/runtime/stats", "/nothing", "/openapi.json"} {
		r.limited("address", "GET", path)
	}
	r.limited("address", "GET", "/api/runtime/stats", auth.HeaderKey, "not-a-key-0123456789")
	r.limited("address", "POST", "/api/runtime/llm-tasks")
	for _, probe := range []string{"/readyz", "/health", "/healthz"} {
		if a := r.do("GET", probe, ""); a.status != 200 {
			t.Errorf("a load balancer is refused at %s: %d", probe, a.status)
		}
		r.limited("address", "GET", probe, auth.HeaderKey, "not-a-key-0123456789")
	}
	// A caller with a key is not limited by anonymous callers at the same address.
	r.call(200, nil, "GET", "/stats", "", auth.HeaderKey, viewerKey)
}

func TestEachKeyHasItsLimitAndWorkersHaveTheirs(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.Limits{Address: 100, SignIn: 20, Key: 10, Worker: 20}))
	viewerKey, clientKey := r.stored(auth.RoleViewer), r.stored(auth.RoleClient)
	for range 10 {
		r.call(200, nil, "GET", "/stats", "", auth.HeaderKey, viewerKey)
	}
	r.limited("key", "GET", "/api/runtime/stats", auth.HeaderKey, viewerKey)
	r.limited("key", "GET", "/nothing", auth.HeaderKey, viewerKey)
	r.call(200, nil, "GET", "/stats", "", auth.HeaderKey, clientKey)
	for range 10 {
		r.call(200, nil, "GET", "/stats", "", auth.HeaderKey, adminKey)
	}
	r.limited("key", "GET", "/api/runtime/stats", auth.HeaderKey, adminKey)
	// Workers' requests are counted separately, whatever their key.
	for range 20 {
		r.call(404, nil, "POST", "/workers/w/claim", "{}", auth.HeaderKey, adminKey)
		r.call(404, nil, "POST", "/workers/w/claim", "{}", auth.HeaderKey, workerKey)
	}
	r.limited("worker", "POST", "/api/runtime/workers/w/claim", auth.HeaderKey, adminKey)
	r.limited("worker", "POST", "/api/runtime/workers/w/claim", auth.HeaderKey, workerKey)
}

// Registrations and releases each add an audit entry that nothing else bounds: a stolen worker key
// must not fill the database with them. Admins are not counted.
func TestAWorkersKeyCannotFloodTheAudit(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.Limits{Registrations: 3}))
	worker := r.newKey(auth.RoleWorker).Key
	for i := range 3 {
		r.call(201, nil, "POST", "/workers", fmt.Sprintf(`{"name":"w%d"}`, i), auth.HeaderKey, worker)
	}
	a := r.call(429, nil, "POST", "/workers", `{"name":"w0"}`, auth.HeaderKey, worker)
	if a.header.Get("Retry-After") == "" || !strings.HasPrefix(a.header.Get("RateLimit"), `"registrations";r=0;t=`) || a.header.Get("RateLimit-Policy") != `"registrations";q=3;w=2000` {
		t.Errorf("refused with %v", a.header)
	}
	r.call(200, nil, "POST", "/workers/w0/claim", `{"max":1}`, auth.HeaderKey, worker) // claims still work
	r.call(200, nil, "POST", "/workers", `{"name":"w0"}`)
	// Completions under invented leases are all refused, and audited a few times.
	id, began := r.task("").ID, time.Now()
	for range 150 {
		r.fails(409, "lease_lost", "POST", "/llm-tasks/"+id+"/complete", `{"lease_id":"`+id+`","status":"success","output":""}`, auth.HeaderKey, worker)
	}
	most := 60 + int(60*time.Since(began).Minutes()) + 1
	var entries []bloom.Audit
	if r.call(200, &entries, "GET", "/audit?limit=1000&action=lease_lost", ""); len(entries) < 10 || len(entries) > most {
		t.Errorf("%d refused completions are in the audit", len(entries))
	}
	// They do not suppress the entries of others: of another key, or of a worker that had a lease.
	r.worker("other", 1)
	task := r.task("")
	lost := r.lease(task.ID).Lease.ID
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/release", `{"lease_id":"`+lost+`","reason":"r"}`)
	r.lease(task.ID)
	for _, key := range []string{r.newKey(auth.RoleWorker).Key, worker} {
		r.fails(409, "lease_lost", "POST", "/llm-tasks/"+task.ID+"/complete", `{"lease_id":"`+lost+`","status":"success","output":""}`, auth.HeaderKey, key)
	}
	if r.call(200, &entries, "GET", "/audit?action=lease_lost&entity_id="+task.ID, ""); len(entries) != 2 {
		t.Errorf("%d entries of others", len(entries))
	}
}

// Streams stay open, so their number is limited as well as their rate: otherwise one key could use
// all connections.
func TestTheOpenStreamsOfAKeyAreBounded(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.Limits{Streams: 3}))
	viewer, other := r.newKey(auth.RoleViewer).Key, r.newKey(auth.RoleViewer).Key
	path := "/llm-tasks/" + r.task("").ID + "/events"
	open := []*sse{r.stream(t, path, auth.HeaderKey, viewer), r.stream(t, "/events", auth.HeaderKey, viewer), r.stream(t, path, auth.HeaderKey, viewer)}
	for _, path := range []string{path, "/events"} {
		f := r.fails(429, bloom.CodeRateLimited, "GET", path, "", auth.HeaderKey, viewer)
		if !strings.Contains(f.Message, "3 streams") {
			t.Error(f.Message)
		}
	}
	// The limit is checked first: nothing of a refused request is read.
	r.fails(429, bloom.CodeRateLimited, "GET", "/llm-tasks/00000000-0000-7000-8000-000000000000/events", "", auth.HeaderKey, viewer)
	r.stream(t, "/events", auth.HeaderKey, other).close()
	open[1].close()
	for limit := time.Now().Add(time.Minute); ; { // the server sees the end a moment later
		s := r.stream(t, "/events", auth.HeaderKey, viewer)
		status := s.res.StatusCode
		s.close()
		if status == 200 {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("a stream that has ended still counts")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// brokenTasks is a store in which reading a task panics.
type brokenTasks struct{ contract.Store }

func (brokenTasks) Task(context.Context, string) (bloom.Task, error) { panic("broken") }

func TestAStreamThatFailsBeforeItIsOpenDoesNotCount(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.Limits{Streams: 2}), func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { d.Store = brokenTasks{d.Store} })
	for range 5 {
		r.fails(500, bloom.CodeInternal, "GET", "/llm-tasks/00000000-0000-7000-8000-000000000000/events", "")
	}
	s := r.stream(t, "/events")
	defer s.close()
	if s.res.StatusCode != 200 {
		t.Errorf("after streams that failed: %d", s.res.StatusCode)
	}
}

func TestLimitsCanBeSwitchedOffAndSpareThisMachine(t *testing.T) {
	t.Parallel()
	off := newFixture(t)
	local := newFixture(t, noKeys, withLimits(httpapi.Limits{Address: 1, Key: 1, Worker: 1}))
	local.key = ""
	for _, r := range []*fixture{off, local} {
		for range 20 {
			if a := r.call(200, nil, "GET", "/stats", ""); a.header.Get("RateLimit") != "" {
				t.Fatalf("%v", a.header)
			}
		}
	}
}

func TestMadeUpAddressesRaiseNoLimit(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.DefaultLimits), func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		h.Proxies = guard.Proxies{netip.MustParsePrefix("10.0.0.0/8")} // does not include the peer
	})
	r.key = ""
	answered, began := 0, time.Now()
	for i := range 300 {
		if a := r.do("GET", "/api/runtime/session", "", "X-Forwarded-For", fmt.Sprintf("198.51.%d.%d", i/250, i%250), "Forwarded", "for=203.0.113.9"); a.status == 200 {
			answered++
		}
	}
	more := int(100*time.Since(began).Minutes()) + 1 // as time passes
	if answered < 100 || answered > 100+more {
		t.Errorf("%d requests were answered", answered)
	}
}

func TestClientsBehindATrustedProxyAreDistinguished(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.Limits{Address: 5}), func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		h.Proxies = guard.Proxies{netip.MustParsePrefix("127.0.0.0/8")}
	})
	r.key = ""
	for range 5 { // two addresses of one IPv6 network, after an address that the client invented
		r.call(200, nil, "GET", "/session", "", "X-Forwarded-For", "192.0.2.1")
	}
	r.limited("address", "GET", "/api/runtime/session", "X-Forwarded-For", "192.0.2.1")
	r.limited("address", "GET", "/api/runtime/session", "X-Forwarded-For", "203.0.113.5, 192.0.2.1")
	r.call(200, nil, "GET", "/session", "", "X-Forwarded-For", "192.0.2.2")
	for i := range 5 {
		r.call(200, nil, "GET", "/session", "", "X-Forwarded-For", fmt.Sprintf("2001:db8::%d", i))
	}
	r.limited("address", "GET", "/api/runtime/session", "X-Forwarded-For", "2001:db8::77")
}

// A worker's polls wait; when one worker has too many, the oldest ends.
func TestTheLongPollsOfAWorkerAreBounded(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	ended := make(chan int, 20)
	for range 20 {
		go func() {
			status := http.StatusServiceUnavailable // like a busy store
			for status == http.StatusServiceUnavailable {
				status = r.do("POST", "/api/runtime/workers/w1/claim", `{"wait_sec":60}`).status
			}
			ended <- status
		}()
	}
	for range 12 {
		select {
		case status := <-ended:
			if status != 200 {
				t.Errorf("a poll ended with %d", status)
			}
		case <-time.After(50 * time.Second):
			t.Fatalf("%d polls of one worker wait", r.service.Waiting())
		}
	}
	r.service.Close() // ends the others
	for range 8 {
		<-ended
	}
}

func TestFloodsFillNoLog(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	refused := map[string]int{}
	r := newFixture(t, withLimits(httpapi.Limits{Address: 5}), func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		h.Refused = func(limit string) { mu.Lock(); refused[limit]++; mu.Unlock() }
	})
	r.key = ""
	for range 500 {
		r.do("GET", "/api/runtime/stats", "")
	}
	mu.Lock()
	defer mu.Unlock()
	if refused["address"] < 480 {
		t.Errorf("%v refusals were counted", refused)
	}
	if log := r.log.String(); strings.Count(log, "\n") > 40 || !strings.Contains(log, "requests refused by a rate limit") {
		t.Errorf("500 requests are %d lines of log: %.2000s", strings.Count(log, "\n"), log)
	}
}

func TestAFullQueueRefusesNewTasksAndAnswersReplays(t *testing.T) {
	t.Parallel()
	var refused atomic.Int32
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		h.Refused = func(limit string) {
			if limit == "queue" {
				refused.Add(1)
			}
		}
		d.MaxQueuedByActor, d.MaxQueued, d.Clock = 10, 15, &racingClock{}
	})
	const body = `{"context_id":"c","agent_slug":"a","prompt":"p"}`
	first := r.task(`,"idempotency_key":"k"`)
	created := r.flood(50, body)
	if created != 9 { // concurrency must not matter
		t.Errorf("%d tasks were created beside the first", created)
	}
	f := r.fails(429, "queue_full", "POST", "/llm-tasks", body)
	if refused.Load() == 0 {
		t.Error("no refusal was counted")
	}
	if !strings.Contains(f.Message, "10 tasks that this key created") {
		t.Error(f.Message)
	}
	var again bloom.Task
	r.call(201, &again, "POST", "/llm-tasks", `{"context_id":"ctx","agent_slug":"coder","prompt":"say hello","idempotency_key":"k"}`)
	if again.ID != first.ID {
		t.Errorf("the replay is task %s, not %s", again.ID, first.ID)
	}
	// Another key has room until the total limit is reached.
	r.key = r.newKey(auth.RoleClient).Key
	if created := r.flood(20, body); created != 5 {
		t.Errorf("another key created %d tasks", created)
	}
	if f := r.fails(429, "queue_full", "POST", "/llm-tasks", body); !strings.Contains(f.Message, "15 tasks are queued") {
		t.Error(f.Message)
	}
	// Claimed tasks make room.
	r.key = adminKey
	r.worker("w", 8)
	r.call(200, nil, "POST", "/workers/w/claim", `{"instance_id":"i","max":3}`)
	if created := r.flood(20, body); created != 3 {
		t.Errorf("%d tasks were created when 3 had been taken", created)
	}
}

// racingClock advances by two seconds with each reading: everything that is cached for a second is
// computed again, also between the steps of a request.
type racingClock struct{ looks atomic.Int64 }

func (c *racingClock) Now() time.Time {
	return time.Now().Add(time.Duration(c.looks.Add(2)) * time.Second)
}

// flood creates n tasks concurrently and counts the successes.
func (r *fixture) flood(n int, body string) (created int32) {
	var wg sync.WaitGroup
	var taken atomic.Int32
	for range n {
		wg.Go(func() {
			a := r.do("POST", "/api/runtime/llm-tasks", body)
			for a.status == http.StatusServiceUnavailable { // a busy machine: it was not tried
				a = r.do("POST", "/api/runtime/llm-tasks", body)
			}
			switch a.status {
			case http.StatusCreated:
				taken.Add(1)
			case http.StatusTooManyRequests:
			default:
				r.t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	return taken.Load()
}

func TestBodiesWithoutAKeyAreSmall(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.key = ""
	for _, path := range []string{"/session", "/test-connection"} {
		if f := r.fails(413, "payload_too_large", "POST", path, strings.Repeat(" ", 8<<10+1)); f.Message != "The body is larger than the 8 KB allowed here" {
			t.Errorf("%s: %s", path, f.Message)
		}
	}
}
