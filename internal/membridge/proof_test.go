package membridge_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
)

const (
	tokenA = "token-of-agent-a-for-tests"
	tokenB = "token-of-agent-b-for-tests"
)

// with returns the agent key, and a token unless it is empty.
func with(token string) http.Header {
	h := http.Header{membridge.AgentHeader: {agentKey}}
	if token != "" {
		h.Set(membridge.TokenHeader, token)
	}
	return h
}

func TestTheAgentKeyWritesOnlyItsOwnersNames(t *testing.T) {
	t.Parallel()
	p := start(t)
	step := func(what string, want int, header http.Header, path, body string) answer {
		t.Helper()
		a := p.as(t, header, "POST", path, body)
		if a.status != want {
			t.Fatalf("%s: %d %s, want %d", what, a.status, a.body, want)
		}
		return a
	}
	listed := func() map[string]any { return p.want(t, 200, "GET", "/agents", "").list(t)[0] }

	step("A registers", 201, with(tokenA), "/agents", `{"name":"a","url":"http://127.0.0.1:7001"}`)
	step("A sends a heartbeat", 200, with(tokenA), "/agents/a/heartbeat", `{"status":"online"}`)
	for _, path := range []string{"/agents", "/agents/a/heartbeat"} {
		body := `{"name":"a","url":"http://127.0.0.1:6666","status":"error","capabilities":{"claude_cli":false}}`
		if d := step("B in A's name", 409, with(tokenB), path, body).json(t)["detail"].(string); !strings.Contains(d, "another token") || !strings.Contains(d, "DELETE /agents/{name}") {
			t.Errorf("detail: %s", d)
		}
		step("somebody without a token in A's name", 409, with(""), path, body)
	}
	if a := listed(); a["url"] != "http://127.0.0.1:7001" || a["status"] != "online" || a["bound"] != true {
		t.Errorf("A is now %v", a)
	}
	if l := p.want(t, 200, "GET", "/agents", ""); strings.Contains(string(l.body), "token") {
		t.Errorf("the listing contains tokens: %s", l.body)
	}

	// The admin key may do everything, and unbinds the name.
	p.want(t, 200, "POST", "/agents", `{"name":"a","status":"online"}`)
	step("B claims what an admin posted", 200, with(tokenB), "/agents/a/heartbeat", `{}`)
	step("A comes too late", 409, with(tokenA), "/agents/a/heartbeat", `{}`)
	p.want(t, 204, "DELETE", "/agents/a", "")
	step("A after the removal", 201, with(tokenA), "/agents", `{"name":"a"}`)
	step("an admin with a token binds", 200, http.Header{membridge.AdminHeader: {adminKey}, membridge.TokenHeader: {tokenB}}, "/agents/a/heartbeat", `{}`)
	step("B, who is bound now", 200, with(tokenB), "/agents/a/heartbeat", `{}`)
	step("a token that is none", 400, with("short"), "/agents/a/heartbeat", `{}`)
}

// An agent of the earlier Node implementation sends no token: the key is enough.
func TestAnAgentWithoutATokenNeedsOnlyTheKey(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, c := range []struct {
		path, body string
		want       int
	}{{"/agents", manualBody, 201}, {"/agents", manualBody, 200}, {"/agents/worker-01/heartbeat", `{"load":{"running":1}}`, 200}} {
		if a := p.as(t, with(""), "POST", c.path, c.body); a.status != c.want {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
	}
	if a := p.want(t, 200, "GET", "/agents", "").list(t)[0]; a["bound"] != false {
		t.Errorf("listed: %v", a)
	}
}

func TestWhereTokensAreRequiredTheAgentKeyAloneWritesNothing(t *testing.T) {
	t.Parallel()
	p := start(t, func(c *membridge.Config) { c.RequireTokens = true })
	p.want(t, 201, "POST", "/agents", manualBody) // manually
	posts := map[string]string{"/agents": `{"name":"worker-01","url":"http://127.0.0.1:6666"}`, "/agents/worker-01/heartbeat": `{"status":"error"}`,
		"/agent/heartbeat": `{"node_id":"n","canonical_id":"c"}`}
	for path, body := range posts {
		a := p.as(t, with(""), "POST", path, body)
		isProblem(t, path, a)
		if d := a.json(t)["detail"].(string); a.status != 401 || !strings.Contains(d, membridge.TokenHeader) || !strings.Contains(d, "--agent-tokens=optional") {
			t.Errorf("%s without a token: %d %s", path, a.status, a.body)
		}
	}
	if a := p.want(t, 200, "GET", "/agents", "").list(t)[0]; a["status"] != "online" || a["url"] != "" || a["heartbeat_at"] != nil {
		t.Errorf("the agent is now %v", a)
	}
	if l := p.want(t, 200, "GET", "/projects/c/leadership", "").json(t); l["node_count"] != 0.0 {
		t.Errorf("a node came in: %v", l)
	}
	for path, body := range posts {
		if a := p.as(t, with(tokenA), "POST", path, body); a.status != 200 {
			t.Errorf("%s with a token: %d %s", path, a.status, a.body)
		}
		if a := p.as(t, with(tokenB), "POST", path, body); a.status != 409 {
			t.Errorf("%s with another's: %d %s", path, a.status, a.body)
		}
		p.want(t, 200, "POST", path, body) // an admin needs none
		if a := p.as(t, with(tokenA), "POST", path, body); a.status != 200 {
			t.Errorf("%s after an admin: %d %s", path, a.status, a.body)
		}
	}
	for _, way := range p.OpenAPI().Paths["/agents"].Post.Security {
		if _, agent := way["agent"]; agent && len(way) == 1 {
			t.Errorf("the description says that the agent key alone is enough: %v", way)
		}
	}
}

func TestANodesHeartbeatIsItsOwnToo(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, c := range []struct {
		what, token string
		want        int
	}{{"the first", tokenA, 200}, {"the same", tokenA, 200}, {"another", tokenB, 409}, {"none", "", 409}} {
		if a := p.as(t, with(c.token), "POST", "/agent/heartbeat", `{"node_id":"n","canonical_id":"c","obs_count":1}`); a.status != c.want {
			t.Errorf("%s: %d %s", c.what, a.status, a.body)
		}
	}
	p.want(t, 200, "POST", "/agent/heartbeat", `{"node_id":"n","canonical_id":"c"}`)
	if a := p.as(t, with(tokenB), "POST", "/agent/heartbeat", `{"node_id":"n","canonical_id":"c"}`); a.status != 200 {
		t.Errorf("after an admin freed it: %d %s", a.status, a.body)
	}
}

func TestListsOfAgentsAndNodesAreBounded(t *testing.T) {
	t.Parallel()
	p := start(t)
	long := `["` + strings.Repeat("a", 17<<10) + `"]`
	for path, body := range map[string]string{
		"/agents":             `{"name":"a","capabilities":{"labels":` + long + `}}`,
		"/agents/a/heartbeat": `{"ip_addrs":` + long + `}`,
		"/agent/heartbeat":    `{"node_id":"n","canonical_id":"c","ip_addrs":` + long + `}`,
	} {
		if a := p.as(t, with(""), "POST", path, body); a.status != 400 || !strings.Contains(string(a.body), "at most 16384 bytes") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
