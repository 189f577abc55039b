package membridge_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

// seedBody is a registration as the earlier system documented it.
const seedBody = `{
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
	a := p.want(t, 201, "POST", "/agents", seedBody).json(t)
	if a["runtime_url"] != "http://127.0.0.1:5000" {
		t.Errorf("runtime_url: %v", a["runtime_url"])
	}
	p.want(t, 200, "POST", "/agents", seedBody)
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

func TestASilentAgentIsOfflineAfterThreeIntervalsAndBackAtItsNextBeat(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.want(t, 201, "POST", "/agents", `{"name":"a","interval_sec":5}`)
	p.want(t, 200, "POST", "/agents/a/heartbeat", `{"load":{"running":2},"capabilities":{"max_concurrency":3}}`)
	p.clock.move(15 * time.Second)
	if got := statusOf(t, p); got != "online" {
		t.Errorf("after three intervals: %v", got)
	}
	p.clock.move(time.Millisecond)
	if got := statusOf(t, p); got != "offline" {
		t.Errorf("after more than three intervals: %v", got)
	}
	got := p.want(t, 200, "POST", "/agents/a/heartbeat", "").json(t)
	if got["ok"] != true || statusOf(t, p) != "online" {
		t.Errorf("not back: %v", got)
	}
	agent := p.want(t, 200, "GET", "/agents", "").list(t)[0]
	if agent["load"].(map[string]any)["running"] != 2.0 || agent["capabilities"].(map[string]any)["max_concurrency"] != 3.0 {
		t.Errorf("load and capabilities of the heartbeat: %v", agent)
	}
	p.want(t, 404, "POST", "/agents/stranger/heartbeat", "{}")
}

func TestWhatAnAgentNeverSaidIsNull(t *testing.T) {
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

func TestAnAgentWhoseHeartbeatWaitsIsAlive(t *testing.T) {
	t.Parallel()
	p := ready(t)
	p.want(t, 200, "POST", "/agents/a/heartbeat", `{"interval_sec":0.1}`)
	got := make(chan answer)
	go func() { got <- p.do(t, "POST", "/agents/a/heartbeat", `{"wait_sec":60}`) }()
	waitFor(t, func() bool { return waitingHeartbeats(t, p) == "1" })
	for range 3 {
		p.clock.move(time.Second)
		waitFor(t, func() bool { return statusOf(t, p) == "online" })
	}
	// So an order finds it.
	waitFor(t, func() bool { return p.do(t, "POST", "/sync/push", order).status == 200 })
	if cmds := (<-got).json(t)["commands"].([]any); len(cmds) != 1 {
		t.Errorf("commands: %v", cmds)
	}
	p.clock.move(time.Second)
	if got := statusOf(t, p); got != "offline" {
		t.Errorf("silent afterwards: %v", got)
	}
}

func TestAnOutageOfTheControlPlaneIsNotTheAgentsSilence(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, name := range []string{"alive", "dead"} {
		p.want(t, 201, "POST", "/agents", `{"name":"`+name+`"}`)
		p.want(t, 200, "POST", "/agents/"+name+"/heartbeat", "")
	}
	p.clock.move(25 * time.Second)
	p.want(t, 200, "POST", "/agents/alive/heartbeat", "")
	p.clock.move(6 * time.Second)
	if err := p.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Close()
	p.clock.move(time.Hour)
	again := launch(t, p.cfg, p.clock)
	statuses := func() string {
		l := again.want(t, 200, "GET", "/agents", "").list(t)
		return fmt.Sprint(l[0]["status"], " ", l[1]["status"])
	}
	if got := statuses(); got != "online offline" {
		t.Errorf("right after the restart: %s", got)
	}
	p.clock.move(31 * time.Second)
	if got := statuses(); got != "offline offline" {
		t.Errorf("silent since the restart: %s", got)
	}
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
	beat := func(node string) any {
		return p.want(t, 200, "POST", "/agent/heartbeat", `{"node_id":"`+node+`","canonical_id":"`+cid+`","project_id":"alpha","last_seen":1.5,"obs_count":3}`).json(t)["role"]
	}
	if beat("n1") != "unknown" || beat("n2") != "unknown" {
		t.Error("a role before any selection")
	}
	p.want(t, 400, "POST", path+"/leadership/select", `{"primary_node_id":"n1","lease_seconds":0}`)
	sel := p.want(t, 200, "POST", path+"/leadership/select", `{"primary_node_id":"n1"}`).json(t)
	if sel["ok"] != true || sel["lease_seconds"] != 3600.0 || sel["epoch"] != 1.0 || sel["issued_by"] != "admin" {
		t.Errorf("selection: %v", sel)
	}
	if beat("n1") != "primary" || beat("n2") != "secondary" {
		t.Error("roles do not follow the selection")
	}
	p.want(t, 409, "POST", path+"/leadership/select", `{"primary_node_id":"n2","expected_epoch":0}`)
	p.want(t, 200, "POST", path+"/leadership/select", `{"primary_node_id":"n2","lease_seconds":60,"expected_epoch":1}`)
	if beat("n1") != "secondary" || beat("n2") != "primary" {
		t.Error("roles do not follow the second selection")
	}
	p.clock.move(time.Minute)
	l := p.want(t, 200, "GET", path+"/leadership", "").json(t)
	if l["needs_selection"] != true || l["expired"] != true || l["preferred_primary"] != nil || l["last_primary"] != "n2" || beat("n2") != "unknown" {
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
	beat := func() map[string]any {
		return p.want(t, 200, "POST", "/agent/heartbeat", `{"node_id":"n","canonical_id":"`+cid+`","project_id":"alpha"}`).json(t)
	}
	beat()
	path := "/projects/" + cid + "/leadership"
	p.want(t, 200, "POST", path+"/select", `{"primary_node_id":"n"}`)
	p.want(t, 204, "DELETE", "/projects/alpha", "")
	if b := beat(); b["role"] != "unknown" || b["epoch"] != 1.0 {
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

const order = `{"project":"alpha","agent":"a"}`

func TestAnOrderTravelsOnAWaitingHeartbeat(t *testing.T) {
	t.Parallel()
	p := ready(t)
	p.want(t, 200, "POST", "/agents/a/heartbeat", "")
	got := make(chan answer)
	go func() { got <- p.do(t, "POST", "/agents/a/heartbeat", `{"wait_sec":60}`) }()
	waitFor(t, func() bool { return waitingHeartbeats(t, p) == "1" })
	job := p.want(t, 200, "POST", "/sync/push", order).json(t)
	if job["status"] != "queued" || job["ok"] != true {
		t.Errorf("answer: %v", job)
	}
	beat := (<-got).json(t)
	cmds := beat["commands"].([]any)
	if len(cmds) != 1 || cmds[0].(map[string]any)["id"] != job["job_id"] || cmds[0].(map[string]any)["type"] != "sync_push" {
		t.Fatalf("commands: %v", beat)
	}
	id := job["job_id"].(string)
	if j := p.want(t, 200, "GET", "/jobs/"+id, "").json(t); j["status"] != "delivered" {
		t.Errorf("job: %v", j)
	}
	held := p.want(t, 200, "POST", "/agents/a/heartbeat", `{"held":["`+id+`"]}`).json(t)
	again := p.want(t, 200, "POST", "/agents/a/heartbeat", `{"wait_sec":60}`).json(t)
	if len(held["commands"].([]any)) != 0 || len(again["commands"].([]any)) != 1 {
		t.Errorf("held %v, lost %v", held, again)
	}
	p.want(t, 200, "POST", "/agents/a/heartbeat", `{"reports":[{"job_id":"`+id+`","status":"completed","detail":"12 rows"}]}`)
	if l := p.want(t, 200, "GET", "/jobs?project=alpha&limit=200", "").list(t); len(l) != 1 || l[0]["status"] != "completed" || l[0]["detail"] != "12 rows" {
		t.Errorf("jobs: %v", l)
	}
}

func TestDrainingWakesAWaitingHeartbeat(t *testing.T) {
	t.Parallel()
	p := ready(t)
	got := make(chan answer)
	go func() { got <- p.do(t, "POST", "/agents/a/heartbeat?wait_sec=60", "") }()
	waitFor(t, func() bool { return waitingHeartbeats(t, p) == "1" })
	p.want(t, 200, "POST", "/agents/a/drain", "")
	if b := (<-got).json(t); b["drain"] != true {
		t.Errorf("answer: %v", b)
	}
	// An agent that does not know it yet is told at once, however long it would wait.
	if b := p.want(t, 200, "POST", "/agents/a/heartbeat", `{"wait_sec":60,"drain":false}`).json(t); b["drain"] != true {
		t.Errorf("answer: %v", b)
	}
	if b := p.want(t, 200, "POST", "/agents/a/drain", `{"drain":false}`).json(t); b["drain"] != false {
		t.Errorf("answer: %v", b)
	}
}

func TestQuiesceAnswersWaitingHeartbeats(t *testing.T) {
	t.Parallel()
	p := ready(t)
	got := make(chan answer)
	go func() { got <- p.do(t, "POST", "/agents/a/heartbeat", `{"wait_sec":60}`) }()
	waitFor(t, func() bool { return waitingHeartbeats(t, p) == "1" })
	p.Quiesce()
	if a := <-got; a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestMetricsFollowTheConventions(t *testing.T) {
	t.Parallel()
	p := ready(t)
	p.want(t, 200, "POST", "/agents/a/heartbeat", "")
	text := string(p.want(t, 200, "GET", "/metrics", "").body)
	for _, want := range []string{`membridge_agents{status="online"} 1`, `membridge_heartbeats_total{of="agent"} 1`, `membridge_build_info{version="`, "\ngo_goroutines ", "\nprocess_open_fds "} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not there", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("against the conventions: %v, %v", problems, err)
	}
}

func waitingHeartbeats(t *testing.T, p *plane) string {
	t.Helper()
	for line := range strings.Lines(string(p.want(t, 200, "GET", "/metrics", "").body)) {
		if v, ok := strings.CutPrefix(line, "membridge_waiting_heartbeats "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal("it did not come to pass within 20 s")
		}
	}
}

func TestAnAgentThatGaveAURLIsCalled(t *testing.T) {
	t.Parallel()
	var path, body string
	var heard http.Header
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		path, body, heard = r.URL.Path, string(b), r.Header
		io.WriteString(w, `{"ok":true,"detail":"pulled 4 rows"}`)
	}))
	defer agent.Close()
	p := ready(t)
	p.want(t, 200, "POST", "/agents", `{"name":"a","url":"`+agent.URL+`/"}`)
	a := p.want(t, 200, "POST", "/sync/pull", order).json(t)
	if a["ok"] != true || a["status"] != "completed" || a["detail"] != "pulled 4 rows" || a["canonical_id"] != registry.CanonicalID("alpha") {
		t.Errorf("answer: %v", a)
	}
	if path != "/sync/pull" || !strings.Contains(body, a["job_id"].(string)) || heard.Get(membridge.SignatureHeader) != "" {
		t.Errorf("the agent heard %s %s %v", path, body, heard)
	}

	// With a token of its own it can tell that the order is its control plane's.
	own := http.Header{membridge.AgentHeader: {agentKey}, membridge.TokenHeader: {"the-agents-own-token"}}
	if a := p.as(t, own, "POST", "/agents", `{"name":"a"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	p.want(t, 200, "POST", "/sync/pull", order)
	if got := heard.Get(membridge.SignatureHeader); got != membridge.Sign(registry.TokenDigest("the-agents-own-token"), p.clock.Now(), []byte(body)) {
		t.Errorf("signature: %q", got)
	}
	if all := fmt.Sprint(heard); strings.Contains(all, agentKey) || strings.Contains(all, adminKey) {
		t.Errorf("a key went to the agent's URL: %s", all)
	}

	agent.Close()
	bad := p.want(t, 502, "POST", "/sync/pull", order).json(t)
	if d := bad["detail"].(string); !strings.Contains(d, "unreachable") || strings.Contains(d, "127.0.0.1") {
		t.Errorf("detail: %s", d)
	}
	l := p.want(t, 200, "GET", "/jobs", "").list(t)
	if len(l) != 3 || l[0]["status"] != "failed" || l[1]["status"] != "completed" || l[0]["id"] != bad["job_id"] {
		t.Errorf("jobs: %v, the failed one answered %v", l, bad)
	}
}

func TestOnlyAnAgentsOwnYesIsOne(t *testing.T) {
	t.Parallel()
	var answer string
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
	defer agent.Close()
	p := ready(t)
	p.want(t, 200, "POST", "/agents", `{"name":"a","url":"`+agent.URL+`"}`)
	for said, want := range map[string]string{
		"":                                  "Agent unreachable: its response is not an agent's report",
		"<html>Welcome</html>":              "Agent unreachable: its response is not an agent's report",
		`{"detail":"done"}`:                 "Agent unreachable: its response is not an agent's report",
		`{"ok":"yes"}`:                      "Agent unreachable: its response is not an agent's report",
		`[]`:                                "Agent unreachable: its response is not an agent's report",
		`{"ok":false,"detail":"disk full"}`: "The agent failed: disk full",
		`{"ok":false}`:                      "The agent failed: it gave no reason",
	} {
		answer = said
		a := p.want(t, 502, "POST", "/sync/push", order).json(t)
		if a["detail"] != want {
			t.Errorf("%s: %v", said, a)
		}
		if j := p.want(t, 200, "GET", "/jobs/"+fmt.Sprint(a["job_id"]), "").json(t); j["status"] != "failed" {
			t.Errorf("%s: %v", said, j)
		}
	}
}

func TestAnAgentsURLMayNotLeadToAMetadataService(t *testing.T) {
	t.Parallel()
	p := ready(t)
	p.want(t, 200, "POST", "/agents", `{"name":"a","url":"http://169.254.169.254"}`)
	if d := p.want(t, 502, "POST", "/sync/push", order).json(t)["detail"]; d != "Agent unreachable: the address is not allowed" {
		t.Errorf("detail: %v", d)
	}
}

func TestSyncRefusesWhatCannotBeDone(t *testing.T) {
	t.Parallel()
	p := ready(t)
	p.want(t, 404, "POST", "/sync/push", `{"project":"nope","agent":"a"}`)
	p.want(t, 404, "POST", "/sync/push", `{"project":"alpha","agent":"nope"}`)
	offline := p.want(t, 502, "POST", "/sync/push", order).json(t)
	if j := p.want(t, 200, "GET", "/jobs/"+fmt.Sprint(offline["job_id"]), "").json(t); j["status"] != "failed" || offline["detail"] != "Agent unreachable: it never sent a heartbeat, which fetches commands, and has no URL to call" {
		t.Errorf("answer %v, job %v", offline, j)
	}
	p.want(t, 404, "GET", "/jobs/nope", "")
	p.want(t, 400, "GET", "/jobs?limit=201", "")
}

func TestAJobNobodyReportsOnFails(t *testing.T) {
	t.Parallel()
	p := ready(t, func(c *membridge.Config) { c.JobTimeout = time.Minute })
	p.want(t, 200, "POST", "/agents/a/heartbeat", "")
	p.want(t, 200, "POST", "/sync/push", order)
	p.clock.move(61 * time.Second)
	if err := p.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := p.want(t, 200, "GET", "/jobs", "").list(t); l[0]["status"] != "failed" || !strings.Contains(l[0]["detail"].(string), "1m0s") {
		t.Errorf("jobs: %v", l)
	}
}

func TestTwoSelectionsAtOnceAreBothAnsweredTruly(t *testing.T) {
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
	p.want(t, 201, "POST", "/agents", seedBody)
	p.as(t, http.Header{membridge.AgentHeader: {agentKey}}, "POST", "/agents", seedBody)
	p.Close()
	if text := log.String(); strings.Contains(text, adminKey) || strings.Contains(text, agentKey) || !strings.Contains(text, "POST /agents 201") {
		t.Errorf("log: %s", text)
	}
}
