package membridge_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

// These tests cover what clients of the earlier Node implementation rely on.

func TestLastSeenIsTheFirstHeartbeat(t *testing.T) {
	t.Parallel()
	p := start(t)
	seen := func() any { return p.want(t, 200, "GET", "/agents", "").list(t)[0]["last_seen"] }
	if a := p.want(t, 201, "POST", "/agents", manualBody).json(t); a["last_seen"] != nil {
		t.Errorf("at its registration: %v", a["last_seen"])
	}
	if again := p.want(t, 200, "POST", "/agents", manualBody).json(t); again["last_seen"] != nil || seen() != nil {
		t.Errorf("at its second registration: %v", again["last_seen"])
	}
	p.want(t, 200, "POST", "/agents/worker-01/heartbeat", "")
	if seen() != 1_772_042_245.0 {
		t.Errorf("after a heartbeat: %v", seen())
	}
}

func TestAnUnknownProjectIsEmptyAndMayBeLed(t *testing.T) {
	t.Parallel()
	p := start(t)
	if n := p.want(t, 200, "GET", "/projects/nope/nodes", "").list(t); len(n) != 0 {
		t.Errorf("nodes: %v", n)
	}
	l := p.want(t, 200, "GET", "/projects/nope/leadership", "").json(t)
	if nodes, ok := l["nodes"].([]any); !ok || len(nodes) != 0 || l["preferred_primary"] != nil || l["node_count"] != 0.0 || l["canonical_id"] != "nope" {
		t.Errorf("leadership: %v", l)
	}
	// A primary may be selected before it has reported.
	cid := registry.CanonicalID("later")
	p.want(t, 200, "POST", "/projects/"+cid+"/leadership/select", `{"primary_node_id":"n1"}`)
	if b := p.want(t, 200, "POST", "/agent/heartbeat", `{"node_id":"n1","canonical_id":"`+cid+`","project_id":"later"}`).json(t); b["role"] != "primary" {
		t.Errorf("the node that was selected before it reported hears %v", b)
	}
}

func TestAProjectsIDIsWhatItsNodesReport(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.want(t, 201, "POST", "/agents", `{"name":"a"}`)
	p.want(t, 200, "POST", "/agents/a/heartbeat", "")
	heartbeat := func(cid, name string) {
		p.want(t, 200, "POST", "/agent/heartbeat", `{"node_id":"n","canonical_id":"`+cid+`","project_id":"`+name+`"}`)
	}
	heartbeat("c1", "alpha")
	if l := p.want(t, 200, "GET", "/projects", "").list(t); len(l) != 1 || l[0]["name"] != "alpha" || l[0]["canonical_id"] != "c1" {
		t.Errorf("projects: %v", l)
	}
	p.want(t, 200, "POST", "/sync/push", `{"project":"alpha","agent":"a"}`)
	heartbeat("c2", "alpha")
	// Now two projects have the name.
	for _, c := range [][3]string{{"POST", "/sync/push", `{"project":"alpha","agent":"a"}`}, {"DELETE", "/projects/alpha", ""}} {
		if d := fmt.Sprint(p.want(t, 409, c[0], c[1], c[2]).json(t)["detail"]); !strings.Contains(d, "canonical_id") {
			t.Errorf("%s %s: %s", c[0], c[1], d)
		}
	}
	if j := p.want(t, 200, "POST", "/sync/push", `{"project":"c2","agent":"a"}`).json(t); j["canonical_id"] != "c2" || j["project"] != "alpha" {
		t.Errorf("by id: %v", j)
	}
	if l := p.want(t, 200, "GET", "/jobs?project=c2", "").list(t); len(l) != 1 {
		t.Errorf("jobs of one of them: %v", l)
	}
	p.want(t, 204, "DELETE", "/projects/c1", "")
	p.want(t, 204, "DELETE", "/projects/alpha", "")
	p.want(t, 404, "DELETE", "/projects/alpha", "")
	// A project keeps its name; one without a name may get it later.
	cid := registry.CanonicalID("later")
	heartbeat(cid, "")
	if made := p.want(t, 201, "POST", "/projects", `{"name":"later"}`).json(t); made["nodes_count"] != 1.0 {
		t.Errorf("made: %v", made)
	}
	heartbeat(cid, "other")
	if l := p.want(t, 200, "GET", "/projects", "").list(t); len(l) != 1 || l[0]["name"] != "later" {
		t.Errorf("projects: %v", l)
	}
	if n := p.want(t, 200, "GET", "/projects/"+cid+"/nodes", "").list(t); n[0]["obs_count"] != nil {
		t.Errorf("a node that never said how many observations it has: %v", n[0]["obs_count"])
	}
}

func TestIntegersMayBeWrittenWithAPoint(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.want(t, 201, "POST", "/agents", `{"name":"a","obs_count":120.0,"capabilities":{"max_concurrency":2.0}}`)
	a := p.want(t, 200, "GET", "/agents", "").list(t)[0]
	if a["obs_count"] != 120.0 || a["capabilities"].(map[string]any)["max_concurrency"] != 2.0 {
		t.Errorf("agent: %v", a)
	}
	p.want(t, 200, "POST", "/agent/heartbeat", `{"node_id":"n","canonical_id":"c","obs_count":120.0}`)
	if s := p.want(t, 200, "POST", "/projects/c/leadership/select", `{"primary_node_id":"n","lease_seconds":60.0}`).json(t); s["lease_seconds"] != 60.0 {
		t.Errorf("selection: %v", s)
	}
	p.want(t, 400, "POST", "/agents", `{"name":"a","obs_count":1.5}`)
}

func TestAJobContainsTheOutputOfTheAgentsProgram(t *testing.T) {
	t.Parallel()
	answer := `{"ok":true,"detail":"done","stdout":"4 rows\n","stderr":"","returncode":0.0}`
	var headers http.Header
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers = r.Header
		_, _ = io.WriteString(w, answer)
	}))
	defer agent.Close()
	p := ready(t)
	p.want(t, 200, "POST", "/agents", `{"name":"a","url":"`+agent.URL+`","status":"error"}`)
	id := p.want(t, 200, "POST", "/sync/pull", order).json(t)["job_id"]
	j := p.want(t, 200, "GET", "/jobs/"+fmt.Sprint(id), "").json(t)
	for field, want := range map[string]any{"action": "pull", "stdout": "4 rows\n", "stderr": "", "returncode": 0.0, "dryrun": false, "request_id": id} {
		if got, there := j[field]; !there || got != want {
			t.Errorf("%s: %v, want %v", field, got, want)
		}
	}
	if headers.Get(membridge.AgentHeader) != "" {
		t.Error("the agent key was sent unasked")
	}
	if a := p.want(t, 200, "GET", "/agents", "").list(t)[0]; a["status"] != "online" || a["last_seen"] != 1_772_042_245.0 {
		t.Errorf("after a sync that went well: %v %v", a["status"], a["last_seen"])
	}
	answer = `{"ok":false,"detail":"no bucket","stderr":"NoSuchBucket","returncode":1}`
	bad := p.want(t, 502, "POST", "/sync/push", order).json(t)
	if j := p.want(t, 200, "GET", "/jobs/"+fmt.Sprint(bad["job_id"]), "").json(t); j["returncode"] != 1.0 || j["stderr"] != "NoSuchBucket" || j["action"] != "push" {
		t.Errorf("the failed job: %v", j)
	}
	p.want(t, 400, "POST", "/sync/push", `{"project":"alpha","agent":"a","dryrun":true}`)

	// Agents with heartbeats send the output with their reports.
	p.want(t, 200, "POST", "/agents/a/heartbeat", `{"status":"syncing"}`)
	next := p.want(t, 200, "POST", "/sync/pull", order).json(t)["job_id"]
	p.want(t, 200, "POST", "/agents/a/heartbeat", `{"reports":[{"job_id":"`+fmt.Sprint(next)+`","status":"completed","stdout":"ok","returncode":0}]}`)
	if j := p.want(t, 200, "GET", "/jobs/"+fmt.Sprint(next), "").json(t); j["stdout"] != "ok" || j["returncode"] != 0.0 {
		t.Errorf("the reported job: %v", j)
	}
	if got := statusOf(t, p); got != "online" {
		t.Errorf("after the report: %v", got)
	}
}

func TestTheAgentKeyIsSentOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	var headers http.Header
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers = r.Header
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	defer agent.Close()
	p := ready(t, func(c *membridge.Config) { c.SyncAgentKey = true })
	p.want(t, 200, "POST", "/agents", `{"name":"a","url":"`+agent.URL+`"}`)
	p.want(t, 200, "POST", "/sync/pull", order)
	if headers.Get(membridge.AgentHeader) != agentKey || strings.Contains(fmt.Sprint(headers), adminKey) {
		t.Errorf("the agent received %v", headers)
	}
	// An agent with a token verifies commands with it and gets no key.
	own := http.Header{membridge.AgentHeader: {agentKey}, membridge.TokenHeader: {"the-agents-own-token"}}
	if a := p.as(t, own, "POST", "/agents", `{"name":"a"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	p.want(t, 200, "POST", "/sync/pull", order)
	if headers.Get(membridge.AgentHeader) != "" || headers.Get(membridge.SignatureHeader) == "" {
		t.Errorf("an agent with a token received %v", headers)
	}
}

func TestTheWebApplicationsOldAddressesLeadToIt(t *testing.T) {
	t.Parallel()
	stay := &http.Client{Transport: client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for runtime, want := range map[string]string{"http://127.0.0.1:5000": "http://127.0.0.1:5000/", "http://0.0.0.0:5000": "http://127.0.0.1:5000/", "": ""} {
		p := start(t, func(c *membridge.Config) { c.RuntimeURL = runtime })
		for _, path := range []string{"/ui", "/static/ui.html"} {
			res, err := stay.Get(p.url + path)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			switch {
			case want != "" && (res.StatusCode != http.StatusFound || res.Header.Get("Location") != want):
				t.Errorf("%s with %q: %d to %s", path, runtime, res.StatusCode, res.Header.Get("Location"))
			case want == "" && (res.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "--runtime-url")):
				t.Errorf("%s without an address: %d %s", path, res.StatusCode, body)
			}
		}
	}
}
