package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

// bridge is a control plane as the service sees it.
type bridge struct {
	mu       sync.Mutex
	state    dispatch.MembridgeState
	health   json.RawMessage
	url, key string
	refuses  error // what needs the key
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

func (r *rig) finish(output string) bloom.Completed {
	r.t.Helper()
	task := r.task("")
	l := r.lease(task.ID)
	var done bloom.Completed
	body := bloom.MustJSON(bloom.Completion{LeaseID: l.Lease.ID, Status: "success", Output: &output})
	r.call(200, &done, "POST", "/llm-tasks/"+task.ID+"/complete", string(body))
	return done
}

func (r *rig) files() (n int) {
	r.t.Helper()
	must(r.t, filepath.WalkDir(filepath.Join(r.dir, "artifacts"), func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	}))
	return n
}

func TestLargeContentLiesInTheBlobStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker("w1", 4)
	small, large := strings.Repeat("s", bloom.InlineContentLimit), strings.Repeat("ä", bloom.InlineContentLimit)
	if done := r.finish(small); done.Artifact.Content == nil || done.Artifact.URL != nil || r.files() != 0 {
		t.Fatalf("small content lies at %v", done.Artifact.URL)
	}
	done := r.finish(large)
	if done.Artifact.Content != nil || done.Artifact.URL == nil || done.Artifact.Size != int64(len(large)) || r.files() != 1 {
		t.Fatalf("large content lies at %v", done.Artifact.URL)
	}
	if *done.Result.Output != large {
		t.Fatal("the completion's answer lost the output")
	}
	var results []bloom.Result
	r.call(200, &results, "GET", "/llm-tasks/"+done.Task.ID+"/results", "")
	if *results[0].Output != large {
		t.Fatal("the result lost the output")
	}
	a := r.call(200, nil, "GET", "/artifacts/"+done.Artifact.ID+"/content", "")
	if string(a.body) != large || a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		t.Fatalf("content of %d bytes with %v", len(a.body), a.header)
	}
	var list []bloom.Artifact
	r.call(200, &list, "GET", "/artifacts?task_id="+done.Task.ID, "")
	if len(list) != 1 || list[0].ID != done.Artifact.ID {
		t.Fatalf("artifacts of the task: %+v", list)
	}
	// Refused and repeated completions leave no content behind.
	body := bloom.MustJSON(bloom.Completion{LeaseID: *done.Task.LeaseID, Status: "success", Output: &large})
	r.call(200, nil, "POST", "/llm-tasks/"+done.Task.ID+"/complete", string(body))
	other := large + "!"
	body = bloom.MustJSON(bloom.Completion{LeaseID: *done.Task.LeaseID, Status: "success", Output: &other})
	r.fails(409, "already_completed", "POST", "/llm-tasks/"+done.Task.ID+"/complete", string(body))
	if r.files() != 1 {
		t.Fatalf("%d files of one artifact", r.files())
	}
}

func TestAlteredContentIsNeverServedWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker("w1", 4)
	done := r.finish(strings.Repeat("x", bloom.InlineContentLimit+1))
	path := filepath.Join(r.dir, "artifacts", strings.TrimPrefix(*done.Artifact.URL, "file:"))
	must(t, os.WriteFile(path, []byte(strings.Repeat("y", bloom.InlineContentLimit+1)), 0o600))
	res, err := r.client.Do(r.request("GET", "/api/runtime/artifacts/"+done.Artifact.ID+"/content", ""))
	must(t, err)
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err == nil && len(got) > bloom.InlineContentLimit {
		t.Fatal("altered content was served as if it were whole")
	}
	must(t, os.Remove(path))
	r.fails(404, "not_found", "GET", "/artifacts/"+done.Artifact.ID+"/content", "")
}

func TestPoisonTextGoesThroughCleaned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker("w1", 4)
	var task bloom.Task
	r.call(201, &task, "POST", "/llm-tasks", "{\"context_id\":\"c\\u0000\",\"agent_slug\":\"a\",\"prompt\":\"nul \\u0000 lone \\ud800 raw \xff end\"}")
	if task.Prompt != "nul \uFFFD lone \uFFFD raw \uFFFD end" || task.ContextID != "c\uFFFD" {
		t.Fatalf("stored as %q", task.Prompt)
	}
	var found []bloom.Task
	r.index()
	if r.call(200, &found, "GET", "/llm-tasks?context_id=c%00&q=nul+%00", ""); len(found) != 1 {
		t.Fatalf("%d tasks have the context's name as it was sent", len(found))
	}
	var worker bloom.Worker
	r.call(201, &worker, "POST", "/workers", `{"name":"w2","agent_version":"1\u0000","ip_addrs":["\ud800"],"capabilities":{"labels":["l\u0000"]}}`)
	if worker.AgentVersion != "1\uFFFD" || worker.IPAddrs[0] != "\uFFFD" || worker.Capabilities.Labels[0] != "l\uFFFD" {
		t.Fatalf("registered as %+v", worker)
	}
	l := r.lease(task.ID)
	events := "{\"seq\":1,\"type\":\"text\",\"at\":1,\"data\":{\"t\":\"\\u0000\\ud800\xff\",\"n\":12345678901234567890}}\n\n" +
		`{"seq":2,"type":"text","at":2,"data":{"text":"` + strings.Repeat("long ", 500_000) + `","keep":1}}` + "\n" +
		`{"seq":3,"type":"log","at":3}`
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/events?lease_id="+l.Lease.ID, events, "Content-Type", "application/x-ndjson")
	body := "{\"lease_id\":\"" + l.Lease.ID + "\",\"status\":\"error\",\"error_message\":\"\\u0000\xfe\",\"output\":\"\\ud800\"}"
	var done bloom.Completed
	r.call(200, &done, "POST", "/llm-tasks/"+task.ID+"/complete", body)
	if *done.Result.ErrorMessage != "\uFFFD\uFFFD" || *done.Artifact.Content != "\uFFFD" || done.Artifact.Type != bloom.DefaultArtifactType || done.Artifact.Tags == nil {
		t.Fatalf("the outcome is kept as %+v and %+v", done.Result, done.Artifact)
	}
	got := r.events(task.ID, "")
	if len(got) != 6 { // created, leased, three of the worker, failed
		t.Fatalf("%d events", len(got))
	}
	if s := string(got[2].Data); !strings.Contains(s, "\uFFFD") || strings.Contains(s, "\\u0000") || !strings.Contains(s, "12345678901234567890") {
		t.Fatalf("poison event stored as %s", s)
	}
	if s := got[3].Data; len(s) > bloom.MaxEventData || !strings.Contains(string(s), `"truncated":true`) || !strings.Contains(string(s), `"keep":1`) {
		t.Fatalf("a long event was kept with %d bytes", len(s))
	}
}

// events reads a finished task's stream as lines.
func (r *rig) events(taskID, after string) (events []bloom.Event) {
	r.t.Helper()
	a := r.call(200, nil, "GET", "/llm-tasks/"+taskID+"/events?after="+after, "", "Accept", "application/x-ndjson")
	for line := range strings.Lines(string(a.body)) {
		var e bloom.Event
		must(r.t, json.Unmarshal([]byte(line), &e))
		events = append(events, e)
	}
	return events
}

func TestPagesFollowTheLink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var want, got []string
	for range 7 {
		want = append([]string{r.task("").ID}, want...)
	}
	r.call(201, nil, "POST", "/llm-tasks", `{"context_id":"elsewhere","agent_slug":"coder","prompt":"p"}`)
	path := "/api/runtime/llm-tasks?limit=3&context_id=ctx"
	for path != "" {
		a := r.do("GET", path, "")
		var tasks []bloom.Task
		must(t, json.Unmarshal(a.body, &tasks))
		if len(tasks) > 3 {
			t.Fatalf("a page of 3 has %d entries", len(tasks))
		}
		for _, task := range tasks {
			got = append(got, task.ID)
		}
		path = ""
		if link := a.header.Get("Link"); link != "" {
			path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestSettingsAreKeptSealedAndShownMasked(t *testing.T) {
	t.Parallel()
	b := &bridge{health: json.RawMessage(`{"status":"ok"}`)}
	withBridge := func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) {
		d.Membridge, d.MembridgeURL, d.MembridgeAdminKey = b, "http://127.0.0.1:8000", "tiny"
	}
	r := newRig(t, withBridge)
	var set dispatch.Settings
	r.call(200, &set, "GET", "/config", "")
	if set.MembridgeURL != "http://127.0.0.1:8000" || set.AdminKeyMasked != "****" || set.LastTest != nil {
		t.Fatalf("from the environment: %+v", set)
	}
	const secret = "abcd-a-very-secret-key-wxyz"
	r.call(200, &set, "POST", "/config", `{"membridge_server_url":"http://bridge:8000/","admin_key":"`+secret+`"}`)
	if set.MembridgeURL != "http://bridge:8000" || set.AdminKeyMasked != "abcd****wxyz" || b.url != set.MembridgeURL || b.key != secret {
		t.Fatalf("saved: %+v, the client has %s", set, b.url)
	}
	var c dispatch.Connection
	r.call(200, &c, "POST", "/test-connection", "")
	if !c.Connected || string(c.Health) != `{"status":"ok"}` {
		t.Fatalf("tested: %+v", c)
	}
	b.health = nil
	a := r.call(200, &c, "POST", "/test-connection", "")
	if strings.Contains(string(a.body), "10.9.8.7") || !strings.Contains(string(a.body), `"connected":false`) {
		t.Fatalf("a failed test says %s", a.body)
	}
	var audit []bloom.Audit
	a = r.call(200, &audit, "GET", "/audit", "")
	if len(audit) != 3 || audit[2].Action != "config_updated" || audit[0].Action != "connection_test" || strings.Contains(string(a.body), secret) {
		t.Fatalf("audit: %s", a.body)
	}
	r.wantNoSecretOnDisk(secret)
	// Another service on the same store has what was saved, not its environment.
	other := &bridge{}
	sealer, err := auth.OpenSealer(filepath.Join(r.dir, auth.SealKeyFile))
	must(t, err)
	again, err := dispatch.New(t.Context(), dispatch.Config{Store: r.store, Blobs: noBlobs{}, Seal: sealer, Membridge: other, MembridgeURL: "http://env"})
	must(t, err)
	defer again.Close()
	if other.url != "http://bridge:8000" || other.key != secret || again.Settings().LastTest == nil {
		t.Fatalf("after a restart: %+v at %s", again.Settings(), other.url)
	}
}

type noBlobs struct{ bloom.Blobs }

func (r *rig) wantNoSecretOnDisk(secret string) {
	r.t.Helper()
	must(r.t, filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), secret) {
			r.t.Errorf("%s shows the secret", filepath.Base(path))
		}
		return err
	}))
}

func TestMembridgeIsReachedThroughTheProxy(t *testing.T) {
	t.Parallel()
	p := &proxy{status: 200, answer: `{"ok":true}`}
	r := newRig(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
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

func TestASelectionIsAuditedWhenItsCallerHasGoneOrNothingWasAnswered(t *testing.T) {
	t.Parallel()
	p := &proxy{status: 200, answer: `{"ok":true,"canonical_id":"abc","primary_node_id":"n1"}`}
	r := newRig(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
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

func TestSyncJobsAreOrderedAndReadThroughTheProxy(t *testing.T) {
	t.Parallel()
	p := &proxy{status: 200, answer: `{"ok":true,"job_id":"j1"}`}
	r := newRig(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
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
	// What membridge says of a job that an agent did not carry out is about the agent.
	p.err, p.status, p.answer = nil, http.StatusBadGateway, `{"detail":"Agent unreachable: it is offline","job_id":"j2"}`
	a = r.do("POST", "/api/membridge/sync/push", body)
	if a.status != http.StatusBadGateway || !strings.Contains(string(a.body), "it is offline") || !strings.Contains(string(a.body), "membridge_job_failed") {
		t.Errorf("an agent that is away: %d %s", a.status, a.body)
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

func TestAConnectionTestTriesTheKey(t *testing.T) {
	t.Parallel()
	b := &bridge{health: json.RawMessage(`{"status":"ok"}`), refuses: &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeForbidden, Message: "Membridge refused our key"}}
	r := newRig(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) {
		d.Membridge, d.MembridgeURL, d.MembridgeAdminKey = b, "http://127.0.0.1:8000", "a-key-of-the-environment"
	})
	var found dispatch.Connection
	r.call(200, &found, "POST", "/test-connection", "")
	if found.Connected || !strings.Contains(found.Error, "the admin key in MEMBRIDGE_ADMIN_KEY: GET /projects was refused") {
		t.Errorf("with the environment's key: %+v", found)
	}
	r.call(200, nil, "POST", "/config", `{"membridge_server_url":"http://127.0.0.1:8000","admin_key":"a-key-that-was-saved"}`)
	r.call(200, &found, "POST", "/test-connection", "")
	if found.Connected || !strings.Contains(found.Error, "saved in the settings") {
		t.Errorf("with a saved key: %+v", found)
	}
	b.refuses = nil
	found = dispatch.Connection{}
	r.call(200, &found, "POST", "/test-connection", "")
	if !found.Connected {
		t.Errorf("with the right key: %+v", found)
	}
}

func TestASelectionThatIsNoneIsNotAudited(t *testing.T) {
	t.Parallel()
	p := &proxy{status: 200}
	r := newRig(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
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

func TestMembridgesRefusalIsPassedOnInOurShape(t *testing.T) {
	t.Parallel()
	p := &proxy{}
	r := newRig(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
	for _, c := range []struct {
		status        int
		answer        string
		message, code string
		details       []bloom.FieldError
	}{
		{404, `{"detail":"Project not found"}`, "Project not found", "not_found", nil},
		{409, `{"detail":"Another primary was selected"}`, "Another primary was selected", "conflict", nil},
		{429, `{"detail":"Slower"}`, "Slower", "rate_limited", nil},
		{400, `{"detail":"lease_seconds: must be at least 1"}`, "lease_seconds: must be at least 1", "invalid_request", nil},
		{422, `{"detail":[{"loc":["body","lease_seconds"],"msg":"value is not a valid integer","type":"type_error.integer"}]}`,
			"Membridge refused the request: lease_seconds value is not a valid integer", "invalid_request",
			[]bloom.FieldError{{Field: "lease_seconds", Message: "value is not a valid integer"}}},
		{418, `{"detail":{"odd":true}}`, "Membridge refused the request", "invalid_request", nil},
	} {
		p.status, p.answer = c.status, c.answer
		a := r.do("POST", "/api/membridge/projects/abc/leadership/select", `{"primary_node_id":"n1"}`)
		var got struct {
			Error, Code string
			RequestID   string `json:"request_id"`
			Details     []bloom.FieldError
			Detail      json.RawMessage
		}
		must(t, json.Unmarshal(a.body, &got))
		if retry := a.header.Get("Retry-After"); (retry != "") != (c.status == 429) {
			t.Errorf("%d with Retry-After %q", c.status, retry)
		}
		if a.status != c.status || got.Error != c.message || got.Code != c.code || got.RequestID == "" || !slices.Equal(got.Details, c.details) ||
			`{"detail":`+string(got.Detail)+`}` != c.answer {
			t.Errorf("%d %s becomes %d %s", c.status, c.answer, a.status, a.body)
		}
	}
}

type proxy struct {
	status             int
	answer, path, body string
	err                error
	hook               func()
}

func (p *proxy) Do(ctx context.Context, _, path string, body json.RawMessage) (int, json.RawMessage, error) {
	p.path, p.body = path, string(body)
	if p.hook != nil {
		p.hook()
	}
	if p.err != nil {
		return 0, nil, p.err
	}
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	return p.status, json.RawMessage(p.answer), nil
}

func TestARegistrationThatNamesLessKeepsWhatWasKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const full = `{"name":"w","url":"http://w:1","capabilities":{"claude_cli":false,"max_concurrency":4,"labels":["gpu"]},` +
		`"ip_addrs":["127.0.0.2"],"agent_version":"1","os_info":"linux","install_method":"by hand"}`
	var first bloom.Worker
	r.call(201, &first, "POST", "/workers", full)
	for _, body := range []string{
		`{"name":"w"}`, `{"name":"w","url":"","ip_addrs":null,"agent_version":"","capabilities":{"labels":null}}`,
		`{"name":"w","capabilities":{"max_concurrency":4}}`,
	} {
		var again bloom.Worker
		r.call(200, &again, "POST", "/workers", body)
		again.LastHeartbeat = first.LastHeartbeat
		if string(bloom.MustJSON(again)) != string(bloom.MustJSON(first)) {
			t.Errorf("after %s:\n%s\nbefore:\n%s", body, bloom.MustJSON(again), bloom.MustJSON(first))
		}
	}
	var now bloom.Worker
	r.call(200, &now, "POST", "/workers", `{"name":"w","capabilities":{"claude_cli":true,"labels":[]},"os_info":"plan9"}`)
	if c := now.Capabilities; !c.ClaudeCLI || c.MaxConcurrency != 4 || len(c.Labels) != 0 || now.OSInfo != "plan9" || now.URL != "http://w:1" {
		t.Errorf("after a change: %s", bloom.MustJSON(now))
	}
	// Removed, it begins anew.
	r.call(200, nil, "DELETE", "/workers/w", "")
	r.call(201, &now, "POST", "/workers", `{"name":"w"}`)
	if c := now.Capabilities; !c.ClaudeCLI || c.MaxConcurrency != 1 || now.URL != "" || now.OSInfo != "" {
		t.Errorf("after the removal: %s", bloom.MustJSON(now))
	}
}

func TestAWorkerIsUndrainedWhereItWasDrained(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, step := range []struct {
		path, key, body    string
		atRuntime, atOther bool
	}{
		{"", workerKey, `{"name":"w"}`, false, false},
		{"", workerKey, `{"name":"w","draining":true}`, false, true},
		{"", workerKey, `{"name":"w"}`, false, true},
		{"/w/drain", adminKey, `{"drain":false}`, false, true},
		{"", workerKey, `{"name":"w","draining":false}`, false, false},
		{"/w/drain", adminKey, `{"drain":true}`, true, false},
		{"", workerKey, `{"name":"w","draining":false,"drain_order":9000000000000}`, true, false}, // an older worker's
		{"", workerKey, `{"name":"w","draining":true}`, true, true},
		{"/w/drain", adminKey, `{"drain":false}`, false, true},
		{"", workerKey, `{"name":"w","instance_id":"another"}`, false, true},
		{"", workerKey, `{"name":"w","instance_id":"another","draining":false}`, false, false},
	} {
		var w struct {
			Draining  *bool `json:"draining"`
			AtRuntime *bool `json:"runtime_drain"`
			AtOther   *bool `json:"membridge_drain"`
		}
		r.key = step.key
		a := r.do("POST", "/api/runtime/workers"+step.path, step.body)
		must(t, json.Unmarshal(a.body, &w))
		if a.status > 299 || *w.AtRuntime != step.atRuntime || *w.AtOther != step.atOther || *w.Draining != (step.atRuntime || step.atOther) {
			t.Errorf("after %s %s: %d %s", step.path, step.body, a.status, a.body)
		}
	}
	var audit []bloom.Audit
	r.key = adminKey
	r.call(200, &audit, "GET", "/audit?action="+bloom.ActionWorkerDrain, "")
	if len(audit) != 2 {
		t.Errorf("audit %+v", audit)
	}
}
