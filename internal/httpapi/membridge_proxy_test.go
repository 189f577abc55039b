package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

// bridge is the control plane of the service.
type bridge struct {
	mu       sync.Mutex
	state    dispatch.MembridgeState
	health   json.RawMessage
	url, key string
	refuses  error // for what needs the key
}

func (b *bridge) Health(context.Context) (json.RawMessage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.health == nil {
		return nil, errors.New("dial tcp 10.9.8.7:1: inner text")
	}
	return b.health, nil
}

func (b *bridge) Check(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refuses
}

func (b *bridge) State() dispatch.MembridgeState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

func (b *bridge) Configure(url, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.url, b.key = url, key
}

func TestMembridgeIsReachedThroughTheProxy(t *testing.T) {
	t.Parallel()
	p := &proxy{status: 200, answer: `{"ok":true}`}
	r := newFixture(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
	a := r.do("GET", "/api/membridge/projects/a%2Fb/nodes", "")
	if a.status != 200 || strings.TrimSpace(string(a.body)) != p.answer || p.path != "/projects/a%2Fb/nodes" {
		t.Fatalf("%d %s from %s", a.status, a.body, p.path)
	}
	p.answer = `{"ok":true,"canonical_id":"abc","primary_node_id":"n1","lease_seconds":3600}`
	a = r.do("POST", "/api/membridge/projects/abc/leadership/select", `{"primary_node_id":"n1"}`)
	if a.status != 200 || p.body != `{"primary_node_id":"n1","lease_seconds":3600,"issued_by":"admin"}` {
		t.Fatalf("%d %s after %s", a.status, a.body, p.body)
	}
	var audit []bloom.Audit
	r.call(200, &audit, "GET", "/audit?action=leadership_promote", "")
	if len(audit) != 1 || audit[0].EntityID != "abc" {
		t.Fatalf("audit %+v", audit)
	}
	r.do("POST", "/api/membridge/projects/abc/leadership/select", `{"primary_node_id":"n1","lease_seconds":60,"issued_by":"a person","expected_epoch":0}`)
	if p.body != `{"primary_node_id":"n1","lease_seconds":60,"issued_by":"a person","expected_epoch":0}` {
		t.Errorf("passed on as %s", p.body)
	}
	for sent, want := range map[string]string{
		"/api/%6dembridge/health": "/health", "/%61pi/membridge/projects/a%2Fb%3Fc/leadership": "/projects/a%2Fb%3Fc/leadership",
		"/%61%70%69/%6d%65mbridge/projects": "/projects",
		"/api/membridge/jobs":               "/jobs?limit=50", "/api/membridge/jobs?project=a%26b%3Dc&limit=999": "/jobs?limit=200&project=a%26b%3Dc",
	} {
		p.path = ""
		if a := r.do("GET", sent, ""); a.status != 200 || p.path != want {
			t.Errorf("%s: %d, passed on to %q", sent, a.status, p.path)
		}
	}
	for _, sent := range []string{"/api/membridge/projects/%2e%2e/nodes", "/api/membridge/projects/%2e/leadership"} {
		p.path = ""
		if a := r.do("GET", sent, ""); p.path != "" {
			t.Errorf("%s: %d, passed on to %q", sent, a.status, p.path)
		}
	}
	for status, want := range map[int]string{401: "membridge_unauthorized", 403: "membridge_unauthorized", 500: "membridge_failed", 503: "membridge_failed"} {
		p.status = status
		a := r.do("GET", "/api/membridge/projects", "")
		if a.status != http.StatusBadGateway || !strings.Contains(string(a.body), want) {
			t.Errorf("membridge's %d becomes %d %s", status, a.status, a.body)
		}
	}
}

func TestAgentsAreReadInPages(t *testing.T) {
	t.Parallel()
	p := &proxy{status: 200}
	r := newFixture(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
	for _, c := range []struct{ sent, asked, answer, body, link string }{
		{"", "/agents?limit=200", `[{"name":"a","x":1}]`, `[{"name":"a","x":1}]`, ""},
		{"", "/agents?limit=200", `{"agents":[{"name":"a"}]}`, `[{"name":"a"}]`, ""}, // another membridge
		{"", "/agents?limit=200", `[]`, `[]`, ""},
		{"?limit=2", "/agents?limit=2", `[{"name":"a"},{"name":"b&"}]`, `[{"name":"a"},{"name":"b&"}]`, `</api/membridge/agents?cursor=b%26&limit=2>; rel="next"`},
		{"?limit=2&cursor=b%26", "/agents?after=b%26&limit=2", `[{"name":"c"}]`, `[{"name":"c"}]`, ""},
		{"?limit=5000", "/agents?limit=200", `[]`, `[]`, ""},
	} {
		p.answer = c.answer
		a := r.do("GET", "/api/membridge/agents"+c.sent, "")
		if a.status != 200 || p.path != c.asked || strings.TrimSpace(string(a.body)) != c.body || a.header.Get("Link") != c.link {
			t.Errorf("%q: %d %s, Link %q, asked %s", c.sent, a.status, a.body, a.header.Get("Link"), p.path)
		}
	}
	p.answer = `"none"`
	for sent, want := range map[string]int{"?limit=x": 400, "": 502} {
		if a := r.do("GET", "/api/membridge/agents"+sent, ""); a.status != want {
			t.Errorf("%q: %d %s", sent, a.status, a.body)
		}
	}
}

func TestASelectionIsAuditedWhenItsCallerHasGoneOrNothingWasAnswered(t *testing.T) {
	t.Parallel()
	p := &proxy{status: 200, answer: `{"ok":true,"canonical_id":"abc","primary_node_id":"n1"}`}
	r := newFixture(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
	audited := func() []bloom.Audit {
		var audit []bloom.Audit
		r.call(200, &audit, "GET", "/audit?action=leadership_promote", "")
		return audit
	}
	ctx, leave := context.WithCancel(t.Context())
	p.hook = leave
	req := r.request("POST", "/api/membridge/projects/abc/leadership/select", `{"primary_node_id":"n1"}`)
	req.RemoteAddr = "127.0.0.1:1"
	r.api.ServeHTTP(httptest.NewRecorder(), req.WithContext(ctx))
	if a := audited(); len(a) != 1 || a[0].Detail != "n1 leads abc" {
		t.Fatalf("audit %+v", a)
	}
	p.hook = nil
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for i, c := range []struct {
		err  error
		want int
	}{
		{&bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeDown, Message: "Membridge did not answer within 10s", Cause: context.DeadlineExceeded}, 2},
		{&bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeFailed, Message: "Membridge answered 500"}, 3},
		{&bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeDown, Message: "Membridge is unreachable", Cause: refused}, 3},
		{&bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeForbidden, Message: "Membridge refused our key"}, 3},
	} {
		p.err = c.err
		if a := r.do("POST", "/api/membridge/projects/abc/leadership/select", `{"primary_node_id":"n1"}`); a.status != http.StatusBadGateway {
			t.Errorf("case %d: %d %s", i, a.status, a.body)
		}
		if a := audited(); len(a) != c.want || c.want > 1 && !strings.Contains(a[0].Detail, "unknown") {
			t.Errorf("case %d: audit %+v", i, a)
		}
	}
}

func TestSyncJobsAreCreatedAndReadThroughTheProxy(t *testing.T) {
	t.Parallel()
	p := &proxy{status: 200, answer: `{"ok":true,"job_id":"j1"}`}
	r := newFixture(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
	audited := func() []bloom.Audit {
		var audit []bloom.Audit
		r.call(200, &audit, "GET", "/audit?action=sync_requested", "")
		return audit
	}
	const body = `{"project":"handbook","agent":"alpine-1"}`
	a := r.do("POST", "/api/membridge/sync/push", body)
	if a.status != 200 || strings.TrimSpace(string(a.body)) != p.answer || p.path != "/sync/push" || p.body != body {
		t.Fatalf("%d %s from %s after %s", a.status, a.body, p.path, p.body)
	}
	if a := audited(); len(a) != 1 || a[0].EntityID != "handbook" || !strings.Contains(string(a[0].Data), `"job_id":"j1"`) {
		t.Fatalf("audit %+v", a)
	}
	p.err = &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeDown, Message: "Membridge did not answer within 10s", Cause: context.DeadlineExceeded}
	if a := r.do("POST", "/api/membridge/sync/pull", body); a.status != http.StatusBadGateway || p.path != "/sync/pull" {
		t.Errorf("unanswered: %d %s", a.status, a.body)
	}
	if a := audited(); len(a) != 2 || !strings.Contains(a[0].Detail, "unknown") {
		t.Errorf("audit %+v", a)
	}
	// Membridge's error about a job that an agent failed to carry out concerns the agent.
	p.err, p.status, p.answer = nil, http.StatusBadGateway, `{"detail":"Agent unreachable: it is offline","job_id":"j2"}`
	a = r.do("POST", "/api/membridge/sync/push", body)
	if a.status != http.StatusBadGateway || !strings.Contains(string(a.body), "it is offline") || !strings.Contains(string(a.body), "membridge_job_failed") {
		t.Errorf("an offline agent: %d %s", a.status, a.body)
	}
	for _, wrong := range []string{`{}`, `{"project":"handbook"}`, `{"project":"","agent":"a"}`} {
		p.path = ""
		if a := r.do("POST", "/api/membridge/sync/push", wrong); a.status != http.StatusBadRequest || p.path != "" {
			t.Errorf("%s: %d, passed on to %q", wrong, a.status, p.path)
		}
	}
	p.status, p.answer = 200, `{"id":"a/b","status":"completed"}`
	if a := r.do("GET", "/api/membridge/jobs/a%2Fb", ""); a.status != 200 || p.path != "/jobs/a%2Fb" {
		t.Errorf("one job: %d from %q", a.status, p.path)
	}
	p.path = ""
	if a := r.do("GET", "/api/membridge/jobs/%2e%2e", ""); a.status != http.StatusNotFound || p.path != "" {
		t.Errorf("no job: %d from %q", a.status, p.path)
	}
}

func TestAnInvalidSelectionIsNotAudited(t *testing.T) {
	t.Parallel()
	p := &proxy{status: 200}
	r := newFixture(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
	for _, p.answer = range []string{
		`{}`, `[]`, `true`, `{"ok":false,"canonical_id":"abc","primary_node_id":"n1"}`, `{"ok":true}`, `<html>`,
		`{"ok":true,"canonical_id":"other","primary_node_id":"n1"}`, `{"ok":true,"canonical_id":"abc","primary_node_id":"n2"}`,
	} {
		a := r.do("POST", "/api/membridge/projects/abc/leadership/select", `{"primary_node_id":"n1"}`)
		if a.status != http.StatusBadGateway || !strings.Contains(string(a.body), `"code":"membridge_invalid_answer"`) {
			t.Errorf("%s: %d %s", p.answer, a.status, a.body)
		}
	}
	var audit []bloom.Audit
	r.call(200, &audit, "GET", "/audit?action=leadership_promote", "")
	if len(audit) != 0 {
		t.Errorf("audit %+v", audit)
	}
}
