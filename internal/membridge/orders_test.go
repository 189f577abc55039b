package membridge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

const order = `{"project":"alpha","agent":"a"}`

func TestAWaitingHeartbeatReturnsACommand(t *testing.T) {
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
	heartbeat := (<-got).json(t)
	cmds := heartbeat["commands"].([]any)
	if len(cmds) != 1 || cmds[0].(map[string]any)["id"] != job["job_id"] || cmds[0].(map[string]any)["type"] != "sync_push" {
		t.Fatalf("commands: %v", heartbeat)
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
	// An agent that does not know it yet gets it immediately, however long it would wait.
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

func waitingHeartbeats(t *testing.T, p *plane) string {
	t.Helper()
	for line := range strings.Lines(string(p.want(t, 200, "GET", "/metrics", "").body)) {
		if v, ok := strings.CutPrefix(line, "membridge_waiting_heartbeats "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func TestAnAgentWithAURLIsCalled(t *testing.T) {
	t.Parallel()
	var path, body string
	var headers http.Header
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		path, body, headers = r.URL.Path, string(b), r.Header
		io.WriteString(w, `{"ok":true,"detail":"pulled 4 rows"}`)
	}))
	defer agent.Close()
	p := ready(t)
	p.want(t, 200, "POST", "/agents", `{"name":"a","url":"`+agent.URL+`/"}`)
	a := p.want(t, 200, "POST", "/sync/pull", order).json(t)
	if a["ok"] != true || a["status"] != "completed" || a["detail"] != "pulled 4 rows" || a["canonical_id"] != registry.CanonicalID("alpha") {
		t.Errorf("answer: %v", a)
	}
	if path != "/sync/pull" || !strings.Contains(body, a["job_id"].(string)) || headers.Get(membridge.SignatureHeader) != "" {
		t.Errorf("the agent received %s %s %v", path, body, headers)
	}

	// An agent with a token can verify that the command comes from its control plane.
	own := http.Header{membridge.AgentHeader: {agentKey}, membridge.TokenHeader: {"the-agents-own-token"}}
	if a := p.as(t, own, "POST", "/agents", `{"name":"a"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	p.want(t, 200, "POST", "/sync/pull", order)
	if got := headers.Get(membridge.SignatureHeader); got != membridge.Sign(registry.TokenDigest("the-agents-own-token"), p.clock.Now(), []byte(body)) {
		t.Errorf("signature: %q", got)
	}
	if all := fmt.Sprint(headers); strings.Contains(all, agentKey) || strings.Contains(all, adminKey) {
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

// A runtime waits less long than an agent may take.
func TestTheOutcomeOfACallIsKeptWhenTheCallerIsGone(t *testing.T) {
	t.Parallel()
	p := ready(t)
	ctx, hangUp := context.WithCancel(t.Context())
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // so that the server notices who hangs up
		hangUp()
		for range 20 {
			p.want(t, 200, "GET", "/health", "")
		}
		io.WriteString(w, `{"ok":true}`)
	}))
	defer agent.Close()
	p.want(t, 200, "POST", "/agents", `{"name":"a","url":"`+agent.URL+`"}`)
	r := httptest.NewRequestWithContext(ctx, "POST", "/sync/push", strings.NewReader(order))
	r.Header.Set(membridge.AdminHeader, adminKey)
	r.Header.Set("Content-Type", "application/json")
	p.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if l := p.want(t, 200, "GET", "/jobs", "").list(t); len(l) != 1 || l[0]["status"] != "completed" {
		t.Errorf("jobs: %v", l)
	}
}

func TestOnlyAnExplicitSuccessCounts(t *testing.T) {
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

func TestMetadataServicesAreRefusedInEveryForm(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::1": false,
		"fe80::a9fe:a9fe%eth0": false, "fd00:ec2::254": false, "fd20:ce::254": false, "fd00:c1::a9fe:a9fe": false, "100.100.100.200": false,
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "fd00::1": true, "100.64.0.1": true, "2001:db8::1": true, "64:ff9b::a01:203": true,
	} {
		if err := membridge.DefaultDialPolicy(netip.MustParseAddr(address)); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestACommandFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the command went on to where the agent pointed")
		io.WriteString(w, `{"ok":true}`)
	}))
	defer elsewhere.Close()
	agent := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer agent.Close()
	p := ready(t)
	p.want(t, 200, "POST", "/agents", `{"name":"a","url":"`+agent.URL+`"}`)
	p.want(t, 502, "POST", "/sync/push", order)
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

func TestAJobWithoutAReportFails(t *testing.T) {
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
