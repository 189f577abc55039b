package httpapi_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// heldArtifacts is a store that holds each read of an artifact until the request ends.
type heldArtifacts struct {
	contract.Store
	reads chan struct{}
}

func (h *heldArtifacts) Artifact(ctx context.Context, _ string) (bloom.Artifact, error) {
	h.reads <- struct{}{}
	<-ctx.Done()
	return bloom.Artifact{}, ctx.Err()
}

func TestTwoSlowKeysLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	store := &heldArtifacts{reads: make(chan struct{}, 100)}
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		store.Store, d.Store = d.Store, store
		h.BodyBudget = 1
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		key := r.newKey(bloom.RoleViewer).Key
		for range 16 { // as many as one key may have
			req := r.request("GET", "/api/runtime/artifacts/00000000-0000-7000-8000-000000000000/content", "", auth.HeaderKey, key).WithContext(ctx)
			go func() {
				if res, err := r.client.Do(req); err == nil {
					_ = res.Body.Close()
				}
			}()
			<-store.reads
		}
	}
	r.call(200, nil, "GET", "/llm-tasks", "")
}

func TestTheDownloadsOfAKeyAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ streams, most, status int }{
		"by number": {2, 2, 429},
		"by memory": {0, 16, 503}, // each counts as twice 256 KiB, and a key may use 8 MiB
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &heldArtifacts{reads: make(chan struct{}, 100)}
			r := newFixture(t, withLimits(httpapi.Limits{Streams: c.streams}), func(d *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
				store.Store, d.Store = d.Store, store
				h.BodyBudget = 1
			})
			ctx, cancel := context.WithCancel(t.Context())
			answers := make(chan int, 100)
			download := func() {
				go func() {
					res, err := r.client.Do(r.request("GET", "/api/runtime/artifacts/00000000-0000-7000-8000-000000000000/content", "").WithContext(ctx))
					if err != nil {
						return // cancelled
					}
					_ = res.Body.Close()
					answers <- res.StatusCode
				}()
			}
			defer cancel()
			for range c.most {
				download()
				<-store.reads
			}
			download()
			select {
			case <-store.reads:
				t.Errorf("%d downloads at once", c.most+1)
			case status := <-answers:
				if status != c.status {
					t.Errorf("one more download: %d", status)
				}
			}
		})
	}
}

// While readers hold the memory of a key, every answer to it that may be large waits: those that may
// not are named here. What neither has a body in memory nor a limit of its own would go on for ever.
func TestEveryLargeAnswerWaitsForMemory(t *testing.T) {
	t.Parallel()
	store := &heldArtifacts{reads: make(chan struct{}, 100)}
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
		store.Store, d.Store = d.Store, store
		h.BodyBudget = 1
	})
	var ask sync.WaitGroup
	defer ask.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 16 {
		req := r.request("GET", "/api/runtime/artifacts/00000000-0000-7000-8000-000000000000/content", "").WithContext(ctx)
		ask.Go(func() {
			if res, err := r.client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		})
		<-store.reads
	}
	small := []string{"GET /health", "GET /healthz", "GET /readyz", "GET /api/runtime/health", "GET /api/runtime/config", "GET /api/runtime/stats",
		"GET /api/runtime/session", "GET /api/runtime/session/oidc", "GET /api/runtime/session/oidc/callback", "GET /api/runtime/llm-tasks/{id}/transcript", "GET /api/runtime/llm-tasks/{id}/workspace",
		"GET /api/runtime/events", "GET /api/runtime/llm-tasks/{id}/events", // they take memory page by page
		"GET /api/runtime/llm-tasks/{id}/transcript/content", "GET /api/runtime/llm-tasks/{id}/workspace/content", // read from the storage
		"GET /metrics", "GET /openapi.json", "GET /docs", "GET /docs/docs.js", "GET /docs/docs.css"}
	var asked sync.WaitGroup
	for route := range r.api.Policies() {
		if !strings.HasPrefix(route, "GET ") && !strings.HasSuffix(route, "/cancel") && !strings.HasSuffix(route, "/requeue") || slices.Contains(small, route) || strings.Contains(route, "/membridge/") {
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		asked.Go(func() {
			if a := r.do(method, strings.NewReplacer("{id}", "00000000-0000-7000-8000-000000000000", "{name}", "a").Replace(path), ""); a.status != 503 || !strings.Contains(string(a.body), `"busy"`) {
				t.Errorf("%s: %d %.200s", route, a.status, a.body)
			}
		})
	}
	asked.Wait()
}

func TestEveryTransferCountsAsAStream(t *testing.T) {
	t.Parallel()
	store := &heldArtifacts{reads: make(chan struct{}, 100)}
	r := newFixture(t, withLimits(httpapi.Limits{Streams: 1}), func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { store.Store, d.Store = d.Store, store })
	r.worker("w", 1)
	task := r.task("").ID
	lease := "?lease_id=" + r.lease(task).Lease.ID
	var held sync.WaitGroup
	defer held.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := r.request("GET", "/api/runtime/artifacts/00000000-0000-7000-8000-000000000000/content", "").WithContext(ctx)
	held.Go(func() {
		if res, err := r.client.Do(req); err == nil {
			_ = res.Body.Close()
		}
	})
	<-store.reads
	of := "/llm-tasks/" + task
	for _, route := range []string{"GET " + of + "/events", "GET /events", "GET " + of + "/transcript/content" + lease, "GET " + of + "/workspace/content" + lease,
		"PUT " + of + "/transcript" + lease, "PUT " + of + "/workspace" + lease, "PUT " + of + "/artifacts" + lease + "&path=a"} {
		method, path, _ := strings.Cut(route, " ")
		body := ""
		if method == "PUT" {
			body = "a"
		}
		r.fails(429, bloom.CodeRateLimited, method, path, body)
	}
}

// A worker's words are cut, not refused: the work is done.
func TestAnOutcomesTextsHaveLimits(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w", 1)
	task := r.task("").ID
	lease := r.lease(task).Lease.ID
	long := strings.Repeat("é", 1<<20)
	r.call(200, nil, "POST", "/llm-tasks/"+task+"/complete", `{"lease_id":"`+lease+`","status":"error","error_message":"`+long+`","artifact_tags":["`+long+`"],"metrics":{"model":"`+long+`"}}`)
	var results []bloom.Result
	r.call(200, &results, "GET", "/llm-tasks/"+task+"/results", "")
	var artifacts []bloom.Artifact
	r.call(200, &artifacts, "GET", "/artifacts", "")
	if n := len(*results[0].ErrorMessage); n > 64<<10 || n < 32<<10 {
		t.Errorf("the error has %d bytes", n)
	}
	if n, m := len(artifacts[0].Tags[0]), len(results[0].Metrics.Model); n != 256 || m != 256 {
		t.Errorf("a tag has %d bytes, the model %d", n, m)
	}
}

func TestAPageOfTheAuditHasALimitedSize(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	data := storable.MustJSON(strings.Repeat("a", 60<<10))
	const entries = 250
	for range entries {
		must(t, r.store.AppendAudit(t.Context(), bloom.Audit{Action: "long", EntityType: "config", EntityID: "c", Actor: "a", Data: data}))
	}
	seen, path := 0, "/audit?action=long&limit=1000"
	for pages := 0; path != ""; pages++ {
		var list []bloom.Audit
		a := r.call(200, &list, "GET", path, "")
		if len(a.body) > 12<<20 || pages > 10 {
			t.Fatalf("page %d has %d bytes", pages+1, len(a.body))
		}
		seen += len(list)
		path, _, _ = strings.Cut(strings.TrimPrefix(a.header.Get("Link"), "</api/runtime"), ">")
	}
	if seen != entries {
		t.Errorf("%d entries", seen)
	}
}

// Bodies of which only a byte arrives are bounded for each key, however short they will be.
func TestHalfSentShortBodiesLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	const most = 128 // a key may use 4 MiB, and each body counts as 32 KiB
	r := newFixture(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.BodyBudget = 1 })
	slow := r.newKey(bloom.RoleClient).Key
	var sent sync.WaitGroup
	defer sent.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range most {
		body := &halfBody{begun: make(chan struct{}), ctx: ctx}
		req := r.request("POST", "/api/runtime/llm-tasks", "", auth.HeaderKey, slow).WithContext(ctx)
		req.Body, req.ContentLength = io.NopCloser(body), 100
		sent.Go(func() {
			if res, err := r.client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		})
		<-body.begun
	}
	task := `{"context_id":"c","agent_slug":"a","prompt":"p"}`
	for a := r.do("POST", "/api/runtime/llm-tasks", task, auth.HeaderKey, slow); a.status != 503; a = r.do("POST", "/api/runtime/llm-tasks", task, auth.HeaderKey, slow) {
		if a.status != 201 { // the last of the others may not have been admitted yet
			t.Fatalf("with the same key: %d %s", a.status, a.body)
		}
	}
	r.call(201, nil, "POST", "/llm-tasks", task)
}

// halfBody is a body of which one byte is sent.
type halfBody struct {
	begun chan struct{}
	ctx   context.Context
	sent  bool
}

func (b *halfBody) Read(p []byte) (int, error) {
	if !b.sent {
		b.sent, p[0] = true, '{'
		close(b.begun)
		return 1, nil
	}
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}
