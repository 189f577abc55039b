package membridge_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

// manualBody is a manual registration from the documents of the earlier Node implementation.
const manualBody = `{
  "name": "worker-01",
  "status": "online",
  "capabilities": {
    "claude_cli": true,
    "max_concurrency": 1,
    "labels": ["production"]
  }
}`

func TestAnAgentPostedByHandIsListedAndKeepsItsStatus(t *testing.T) {
	t.Parallel()
	p := start(t)
	if got := p.want(t, 200, "GET", "/agents", "").list(t); len(got) != 0 {
		t.Errorf("agents at first: %v", got)
	}
	a := p.want(t, 201, "POST", "/agents", manualBody).json(t)
	if a["runtime_url"] != "http://127.0.0.1:5000" {
		t.Errorf("runtime_url: %v", a["runtime_url"])
	}
	p.want(t, 200, "POST", "/agents", manualBody)
	p.clock.move(24 * time.Hour)
	got := p.want(t, 200, "GET", "/agents", "").list(t)
	if len(got) != 1 || got[0]["name"] != "worker-01" || got[0]["status"] != "online" || got[0]["registered_at"] != 1_772_042_245.0 {
		t.Errorf("agents: %v", got)
	}
	if diff := cmp.Diff(map[string]any{"claude_cli": true, "max_concurrency": 1.0, "labels": []any{"production"}}, got[0]["capabilities"]); diff != "" {
		t.Error(diff)
	}
	p.want(t, 204, "DELETE", "/agents/worker-01", "")
	p.want(t, 404, "DELETE", "/agents/worker-01", "")
}

func statusOf(t *testing.T, p *plane) any {
	return p.want(t, 200, "GET", "/agents", "").list(t)[0]["status"]
}

func TestUnreportedFactsOfAnAgentAreNull(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.want(t, 201, "POST", "/agents", `{"name":"a"}`)
	shows := func(want map[string]any) {
		t.Helper()
		got := p.want(t, 200, "GET", "/agents", "").list(t)[0]
		for field, value := range want {
			if v, there := got[field]; !there || v != value {
				t.Errorf("%s is %v, want %v", field, v, value)
			}
		}
	}
	shows(map[string]any{"agent_version": nil, "install_method": nil, "obs_count": nil})
	p.want(t, 200, "POST", "/agents/a/heartbeat", `{"agent_version":"1.2","install_method":"apk","obs_count":7}`)
	shows(map[string]any{"agent_version": "1.2", "install_method": "apk", "obs_count": 7.0})
}

func TestProjectsNodesAndLeadership(t *testing.T) {
	t.Parallel()
	p := start(t)
	made := p.want(t, 201, "POST", "/projects", `{"name":"alpha"}`).json(t)
	cid := registry.CanonicalID("alpha")
	if cid != "8ed3f6ad685b959e" || made["canonical_id"] != cid || made["source"] != "manual" || made["last_seen"] != nil {
		t.Errorf("made: %v", made)
	}
	p.want(t, 409, "POST", "/projects", `{"name":"alpha"}`)
	path := "/projects/" + cid
	if l := p.want(t, 200, "GET", path+"/leadership", "").json(t); l["preferred_primary"] != nil || l["needs_selection"] != true || l["node_count"] != 0.0 {
		t.Errorf("leadership at first: %v", l)
	}
	heartbeat := func(node string) any {
		return p.want(t, 200, "POST", "/agent/heartbeat", `{"node_id":"`+node+`","canonical_id":"`+cid+`","project_id":"alpha","last_seen":1.5,"obs_count":3}`).json(t)["role"]
	}
	if heartbeat("n1") != "unknown" || heartbeat("n2") != "unknown" {
		t.Error("a role before any selection")
	}
	p.want(t, 400, "POST", path+"/leadership/select", `{"primary_node_id":"n1","lease_seconds":0}`)
	sel := p.want(t, 200, "POST", path+"/leadership/select", `{"primary_node_id":"n1"}`).json(t)
	if sel["ok"] != true || sel["lease_seconds"] != 3600.0 || sel["epoch"] != 1.0 || sel["issued_by"] != "admin" {
		t.Errorf("selection: %v", sel)
	}
	if heartbeat("n1") != "primary" || heartbeat("n2") != "secondary" {
		t.Error("roles do not follow the selection")
	}
	p.want(t, 409, "POST", path+"/leadership/select", `{"primary_node_id":"n2","expected_epoch":0}`)
	p.want(t, 200, "POST", path+"/leadership/select", `{"primary_node_id":"n2","lease_seconds":60,"expected_epoch":1}`)
	if heartbeat("n1") != "secondary" || heartbeat("n2") != "primary" {
		t.Error("roles do not follow the second selection")
	}
	p.clock.move(time.Minute)
	l := p.want(t, 200, "GET", path+"/leadership", "").json(t)
	if l["needs_selection"] != true || l["expired"] != true || l["preferred_primary"] != nil || l["last_primary"] != "n2" || heartbeat("n2") != "unknown" {
		t.Errorf("an expired lease: %v", l)
	}
	if h := p.want(t, 200, "GET", path+"/leadership/history", "").list(t); len(h) != 2 || h[0]["epoch"] != 2.0 {
		t.Errorf("history: %v", h)
	}
	if h := p.want(t, 200, "GET", "/projects/0123456789abcdef/leadership/history", "").list(t); len(h) != 0 {
		t.Errorf("history of an unknown project: %v", h)
	}
	if n := p.want(t, 200, "GET", path+"/nodes", "").list(t); len(n) != 2 || n[0]["obs_count"] != 3.0 || n[0]["project_id"] != "alpha" {
		t.Errorf("nodes: %v", n)
	}
	if l := p.want(t, 200, "GET", "/projects", "").list(t); len(l) != 1 || l[0]["nodes_count"] != 2.0 {
		t.Errorf("projects: %v", l)
	}
	p.want(t, 204, "DELETE", "/projects/alpha", "")
	p.want(t, 404, "DELETE", "/projects/alpha", "")
}

func TestAProjectMadeAnewHasNoLeader(t *testing.T) {
	t.Parallel()
	p := start(t)
	cid := registry.CanonicalID("alpha")
	heartbeat := func() map[string]any {
		return p.want(t, 200, "POST", "/agent/heartbeat", `{"node_id":"n","canonical_id":"`+cid+`","project_id":"alpha"}`).json(t)
	}
	heartbeat()
	path := "/projects/" + cid + "/leadership"
	p.want(t, 200, "POST", path+"/select", `{"primary_node_id":"n"}`)
	p.want(t, 204, "DELETE", "/projects/alpha", "")
	if b := heartbeat(); b["role"] != "unknown" || b["epoch"] != 1.0 {
		t.Errorf("the node hears %v", b)
	}
	if l := p.want(t, 200, "GET", path, "").json(t); l["needs_selection"] != true || l["preferred_primary"] != nil {
		t.Errorf("leadership: %v", l)
	}
	if s := p.want(t, 200, "POST", path+"/select", `{"primary_node_id":"n","expected_epoch":1}`).json(t); s["epoch"] != 2.0 {
		t.Errorf("selection: %v", s)
	}
}

func ready(t *testing.T, change ...func(*membridge.Config)) *plane {
	t.Helper()
	p := start(t, change...)
	p.want(t, 201, "POST", "/projects", `{"name":"alpha"}`)
	p.want(t, 201, "POST", "/agents", `{"name":"a"}`)
	return p
}

func TestMetricsFollowTheConventions(t *testing.T) {
	t.Parallel()
	p := ready(t)
	p.want(t, 200, "POST", "/agents/a/heartbeat", "")
	// Refused ones do not count.
	p.want(t, 404, "POST", "/agents/unknown/heartbeat", "")
	token := func(token string) http.Header {
		return http.Header{membridge.AgentHeader: {agentKey}, membridge.TokenHeader: {token}}
	}
	for i, want := range []int{200, 409} {
		if a := p.as(t, token(strings.Repeat(fmt.Sprint(i), 16)), "POST", "/agent/heartbeat", `{"node_id":"n","canonical_id":"c"}`); a.status != want {
			t.Errorf("heartbeat %d of a node: %d %s", i, a.status, a.body)
		}
	}
	text := string(p.want(t, 200, "GET", "/metrics", "").body)
	for _, want := range []string{`membridge_agents{status="online"} 1`, `membridge_heartbeats_total{of="agent"} 1`, `membridge_build_info{version="`, "\ngo_goroutines ", "\nprocess_open_fds ",
		// What has not happened yet is 0: an alert on an absent series never fires.
		`membridge_agents{status="offline"} 0`, `membridge_heartbeats_total{of="node"} 1`, `membridge_loop_errors_total{loop="maintenance"} 0`,
		`membridge_requests_refused_total{limit="agent"} 0`, `membridge_sync_jobs_total{by="call",kind="pull"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not there", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("against the conventions: %v, %v", problems, err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal("it did not come to pass within 20 s")
		}
	}
}

func TestTwoConcurrentSelectionsGetCorrectResponses(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, n := range []string{"n0", "n1"} {
		p.want(t, 200, "POST", "/agent/heartbeat", `{"node_id":"`+n+`","canonical_id":"c"}`)
	}
	answers := make([]map[string]any, 2)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			answers[i] = p.do(t, "POST", "/projects/c/leadership/select", fmt.Sprintf(`{"primary_node_id":"n%d"}`, i)).json(t)
		})
	}
	wg.Wait()
	won := answers[0]
	if answers[1]["epoch"].(float64) > won["epoch"].(float64) {
		won = answers[1]
	}
	if answers[0]["epoch"] == answers[1]["epoch"] || p.want(t, 200, "GET", "/projects/c/leadership", "").json(t)["preferred_primary"] != won["primary_node_id"] {
		t.Errorf("answers: %v", answers)
	}
}

func TestNothingIsLoggedOfKeys(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := start(t, func(c *membridge.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	p.want(t, 201, "POST", "/agents", manualBody)
	p.as(t, http.Header{membridge.AgentHeader: {agentKey}}, "POST", "/agents", manualBody)
	p.Close()
	if text := log.String(); strings.Contains(text, adminKey) || strings.Contains(text, agentKey) || !strings.Contains(text, "POST /agents 201") {
		t.Errorf("log: %s", text)
	}
}
