package e2e_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// manualRegistration is a manual registration from the documents of the earlier Node
// implementation.
const manualRegistration = `{
  "name": "worker-01",
  "status": "online",
  "capabilities": {
    "claude_cli": true,
    "max_concurrency": 1,
    "labels": ["production"]
  }
}`

// project is the canonical id of the project "demo".
const project = "2a97516c354b6884"

// TestRuntimeMembridgeAndWorkerInSeparateProcesses starts membridge, runtime and worker separately,
// and registers an agent manually. The sync runs at its default interval of 10 s.
func TestRuntimeMembridgeAndWorkerInSeparateProcesses(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.bridge()
	b.start()
	b.serveFor() // with the default interval

	task := h.submit(t, spec("by hand"))
	if status, body := h.raw(t, "POST", "/llm-tasks/"+task.ID+"/lease", `{}`); status != http.StatusServiceUnavailable {
		t.Fatalf("lease without a worker: %d %s", status, body)
	}
	if status, body := b.ask(t, "POST", "/agents", manualRegistration); status != http.StatusCreated {
		t.Fatalf("the registration by hand: %d %s", status, body)
	}
	eventually(t, "the runtime knows the agent", func() bool {
		w, ok := h.worker(t, "worker-01")
		return ok && w.Status == bloom.WorkerOnline && w.Capabilities.Carries([]string{"production"})
	})
	h.knewWithin(t, b, "worker-01", 20*time.Second) // an interval, and time for a busy machine
	status, body := h.raw(t, "POST", "/llm-tasks/"+task.ID+"/lease", `{}`)
	if status != http.StatusCreated || !strings.Contains(body, `"worker-01"`) {
		t.Fatalf("lease with a worker: %d %s", status, body)
	}
	if status, body := h.raw(t, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":"by hand","metrics":{"duration_ms":1}}`); status != http.StatusOK {
		t.Fatalf("complete: %d %s", status, body)
	}

	file(t, h.gate("open"), "")
	h.stubWorker("own", h.gate("open"), "--runtime-url", h.url, "--membridge-url", b.url)
	eventually(t, "the worker is known on both sides, once", func() bool {
		all, err := h.api.Workers(t.Context())
		return err == nil && len(all) == 2 && len(b.agents(t)) == 2 && b.knows(t, "own", bloom.WorkerOnline)
	})
	h.await(t, h.submit(t, at("own", spec("pulled"))).ID).succeeded("pong")

	// Someone else with the agent key cannot act for the worker.
	for _, path := range []string{"/agents", "/agents/own/heartbeat"} {
		if status, body := fetch(t, "POST", b.url+path, `{"name":"own","status":"error","url":"http://127.0.0.1:1"}`, "X-MEMBRIDGE-AGENT", agentKey); status != http.StatusConflict {
			t.Errorf("POST %s in the worker's name: %d %s", path, status, body)
		}
	}
	if !b.knows(t, "own", bloom.WorkerOnline) {
		t.Error("the worker is not what it was")
	}

	h.leads(t, b)
	h.refusedKey(t, b)
}

// knewWithin compares when the two recorded what they did, both by this machine's clock, so that
// the test's own delay does not count.
func (h *harness) knewWithin(t *testing.T, b *bridge, name string, limit time.Duration) {
	t.Helper()
	var posted []struct {
		Name string  `json:"name"`
		At   float64 `json:"posted_at"`
	}
	if _, body := b.ask(t, "GET", "/agents", ""); json.Unmarshal([]byte(body), &posted) != nil || len(posted) != 1 || posted[0].Name != name {
		t.Fatalf("agents: %s", body)
	}
	trail, _, err := h.api.Audit(t.Context(), bloom.AuditQuery{EntityID: name, Action: audit.ActionWorkerRegistered})
	if err != nil || len(trail) != 1 {
		t.Fatalf("audit: %+v, %v", trail, err)
	}
	took := time.Duration(float64(trail[0].Timestamp)-posted[0].At*1000) * time.Millisecond
	t.Logf("the runtime knew the agent after %s", took)
	if took > limit {
		t.Errorf("the runtime knew the agent after %s, later than %s", took, limit)
	}
}

// TestMembridgeWithoutAnAdminKey logs whom it serves.
func TestMembridgeWithoutAnAdminKey(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, c := range []struct {
		says   string
		env    []string
		status int
		want   string
	}{
		{"DEVELOPMENT MODE", nil, http.StatusOK, "[]"},
		{"NO ADMIN KEY", []string{"MEMBRIDGE_AGENT_KEY=" + agentKey}, http.StatusInternalServerError, `{"detail":"MEMBRIDGE_ADMIN_KEY not configured on server"}`},
	} {
		b := h.bridge()
		p := spawn(t, "membridge", h.env(c.env...), "membridge", "--data-dir", filepath.Join(h.dir, c.says), "--listen", strings.TrimPrefix(b.url, "http://"))
		h.workers = append(h.workers, p)
		p.says(c.says)
		p.says("listens at")
		if status, body := fetch(t, "GET", b.url+"/agents", "", "X-None", ""); status != c.status || strings.TrimSpace(body) != c.want {
			t.Errorf("%s: %d %s", c.says, status, body)
		}
	}
}

// leads lists projects and nodes through the proxy, and selects one node after the other: the roles
// follow with the next heartbeat.
func (h *harness) leads(t *testing.T, b *bridge) {
	t.Helper()
	if status, body := b.ask(t, "POST", "/projects", `{"name":"demo"}`); status != http.StatusCreated || !strings.Contains(body, project) {
		t.Fatalf("a project by hand: %d %s", status, body)
	}
	role := func(node string) string {
		_, body := fetch(t, "POST", b.url+"/agent/heartbeat", `{"node_id":"`+node+`","canonical_id":"`+project+`","project_id":"demo"}`, "X-MEMBRIDGE-AGENT", agentKey)
		var answer struct {
			Role string `json:"role"`
		}
		if json.Unmarshal([]byte(body), &answer) != nil {
			t.Fatalf("a node's heartbeat: %s", body)
		}
		return answer.Role
	}
	for _, node := range []string{"node-a", "node-b"} {
		if r := role(node); r != "unknown" {
			t.Errorf("%s is %s before anybody was chosen", node, r)
		}
	}
	for path, want := range map[string][]string{
		"/health": {"membridge-control-plane"}, "/projects": {`"name":"demo"`, project, `"nodes_count":2`, `"source":"manual"`},
		"/projects/" + project + "/nodes": {"node-a", "node-b"}, "/projects/" + project + "/leadership": {`"preferred_primary":null`},
	} {
		status, body := h.proxy(t, "GET", path, "")
		for _, part := range want {
			if status != http.StatusOK || !strings.Contains(body, part) {
				t.Errorf("GET %s: %d %s, want %s", path, status, body, part)
			}
		}
	}
	for primary, secondary := range map[string]string{"node-a": "node-b", "node-b": "node-a"} {
		status, body := h.proxy(t, "POST", "/projects/"+project+"/leadership/select", `{"primary_node_id":"`+primary+`"}`)
		if status != http.StatusOK || !strings.Contains(body, `"ok":true`) {
			t.Fatalf("select: %d %s", status, body)
		}
		if p, s := role(primary), role(secondary); p != "primary" || s != "secondary" {
			t.Errorf("after the promotion of %s it is %s and %s is %s", primary, p, secondary, s)
		}
	}
	entries, _, err := h.api.Audit(t.Context(), bloom.AuditQuery{Action: audit.ActionLeadershipPromote})
	if err != nil || len(entries) != 2 || entries[0].EntityID != project {
		t.Errorf("audited: %s, %v", storable.MustJSON(entries), err)
	}
	// Clients of the earlier control plane ask about unknown projects.
	if status, answer := h.proxy(t, "GET", "/projects/0000000000000000/leadership", ""); status != http.StatusOK || !strings.Contains(answer, `"nodes":[]`) {
		t.Errorf("leadership of an unknown project: %d %s", status, answer)
	}
	late := `{"primary_node_id":"node-a","expected_epoch":99}`
	if status, answer := h.proxy(t, "POST", "/projects/"+project+"/leadership/select", late); status != http.StatusConflict {
		t.Errorf("a selection on an old view: %d %s, want 409 passed on", status, answer)
	}
}

// refusedKey saves a wrong key, whose refusal is the runtime's fault and not the caller's, and then
// the right one: each is used immediately, and none is shown.
func (h *harness) refusedKey(t *testing.T, b *bridge) {
	t.Helper()
	save := func(key string) {
		cfg, err := h.api.SaveConfig(t.Context(), b.url, key)
		if err != nil || strings.Contains(string(storable.MustJSON(cfg)), key) {
			t.Fatalf("saved: %s, %v", storable.MustJSON(cfg), err)
		}
	}
	save("not-the-key-of-this-membridge")
	if status, body := h.proxy(t, "GET", "/projects", ""); status != http.StatusBadGateway || !strings.Contains(body, `"membridge_unauthorized"`) {
		t.Errorf("with a wrong key: %d %s", status, body)
	}
	eventually(t, "health shows the refusal", func() bool { l := h.link(t); return !l.Connected && l.LastError != nil })
	save(bridgeKey)
	if status, body := h.proxy(t, "GET", "/projects", ""); status != http.StatusOK {
		t.Errorf("with the right key: %d %s", status, body)
	}
	if l := h.link(t); !l.Connected || l.ConsecutiveFailures != 0 {
		t.Errorf("health after the right key: %s", storable.MustJSON(l))
	}
}
