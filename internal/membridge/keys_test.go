package membridge_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
)

func TestWithoutAnAdminKeyTheServerRefuses(t *testing.T) {
	t.Parallel()
	p := start(t, func(c *membridge.Config) { c.AdminKey = "" })
	a := p.as(t, nil, "GET", "/agents", "")
	if a.status != 500 || !strings.Contains(string(a.body), `"MEMBRIDGE_ADMIN_KEY not configured on server"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := p.as(t, nil, "GET", "/health", ""); a.status != 200 {
		t.Errorf("health: %d %s", a.status, a.body)
	}
}

func TestDevelopmentModeAnswersOnlyThisMachine(t *testing.T) {
	t.Parallel()
	p := start(t, func(c *membridge.Config) { c.AdminKey, c.AgentKey, c.Development = "", "", true })
	_, port, _ := strings.Cut(strings.TrimPrefix(p.url, "http://"), ":")
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"a direct request":              {nil, 200},
		"by the name localhost":         {http.Header{"Host": {"localhost:" + port}}, 200},
		"by another port":               {http.Header{"Host": {"localhost:1"}}, 403},
		"by another name":               {http.Header{"Host": {"evil.example"}}, 403},
		"through a proxy":               {http.Header{"X-Forwarded-For": {"127.0.0.1"}}, 403},
		"through a proxy of RFC 7239":   {http.Header{"Forwarded": {"for=127.0.0.1"}}, 403},
		"a page of another origin":      {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Method": {"POST"}}, 403},
		"with a wrong key, which is no": {http.Header{membridge.AdminHeader: {"whatever"}}, 200},
	} {
		method, body := "GET", ""
		if c.header.Get("Method") != "" {
			method, body = "POST", `{"name":"x"}`
		}
		if a := p.as(t, c.header, method, "/projects", body); a.status != c.status {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

func TestWithOnlyAnAgentKeyCallersWithoutAKeyMayNotDoMore(t *testing.T) {
	t.Parallel()
	p := start(t, func(c *membridge.Config) { c.AdminKey, c.Development = "", true })
	agent := http.Header{membridge.AgentHeader: {agentKey}}
	for _, c := range []struct {
		what, method, path string
		header             http.Header
		status             int
	}{
		{"the agents without a key", "GET", "/agents", nil, 500},
		{"a registration without a key", "POST", "/agents", nil, 500},
		{"the agents with the agent key", "GET", "/agents", agent, 403},
		{"a registration with the agent key", "POST", "/agents", agent, 201},
	} {
		body := ""
		if c.method == "POST" {
			body = `{"name":"x"}`
		}
		if a := p.as(t, c.header, c.method, c.path, body); a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.what, a.status, a.body, c.status)
		}
	}
}

func TestWeakKeysAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]membridge.Config{
		"short admin key": {AdminKey: "short", DatabasePath: "x"},
		"short agent key": {AgentKey: "short", DatabasePath: "x"},
		"one key for all": {AdminKey: adminKey, AgentKey: adminKey, DatabasePath: "x"},
		"no database":     {AdminKey: adminKey},
	} {
		if s, err := membridge.Open(t.Context(), cfg); err == nil {
			s.Close()
			t.Errorf("%s was taken", name)
		} else if strings.Contains(err.Error(), adminKey) {
			t.Errorf("%s: the error shows the key", name)
		}
	}
}
