package cli_test

import (
	"crypto/tls"
	"net/http"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

const agentBody = `{"name":"somebody"}`

// bridgeScenes test the control plane's own settings. Standalone, its flags are shorter.
func bridgeScenes() map[string]scene {
	listens := func(host, port string) func(*stage) {
		return func(s *stage) {
			want := s.values.Replace("http://" + host + ":" + port)
			if got := s.bridgeURL(); !strings.HasPrefix(got, want) {
				s.Errorf("listens at %s, want %s", got, want)
			}
		}
	}
	hostAndPort := func(prefix string) []set {
		return []set{{prefix + "host", "127.0.0.2", listens("127.0.0.2", "")}, {prefix + "port", "{port}", listens("127.0.0.2", "{port}")}}
	}
	agentKey := func(key string) func(*stage) {
		return func(s *stage) {
			s.wants(401, "POST", s.bridgeURL()+"/agents", agentBody, "X-MEMBRIDGE-AGENT", key+"x")
			s.wants(201, "POST", s.bridgeURL()+"/agents", agentBody, "X-MEMBRIDGE-AGENT", key)
		}
	}
	needsToken := func(s *stage) {
		s.wants(401, "POST", s.bridgeURL()+"/agents", agentBody, "X-MEMBRIDGE-AGENT", workerKey)
		s.wants(201, "POST", s.bridgeURL()+"/agents", agentBody, "X-MEMBRIDGE-AGENT", workerKey, "X-MEMBRIDGE-TOKEN", strings.Repeat("token", 8))
	}
	adminKey := func(key string) func(*stage) {
		return func(s *stage) {
			s.wants(401, "GET", s.bridgeURL()+"/projects", "", "X-MEMBRIDGE-ADMIN", key+"x")
			s.wants(200, "GET", s.bridgeURL()+"/projects", "", "X-MEMBRIDGE-ADMIN", key)
		}
	}
	withKey, withAdmin := []string{"--membridge-agent-key=" + workerKey}, []string{"--membridge-admin-key=" + serverKey}
	sendsAgentKey := func(s *stage) {
		asAdmin := []string{"X-MEMBRIDGE-ADMIN", serverKey}
		s.wants(201, "POST", s.bridgeURL()+"/projects", `{"name":"p"}`, asAdmin...)
		s.wants(201, "POST", s.bridgeURL()+"/agents", s.values.Replace(`{"name":"a","url":"{bridge}"}`), asAdmin...)
		s.call("POST", s.bridgeURL()+"/sync/push", `{"project":"p","agent":"a"}`, asAdmin...)
		if s.bridge.count(with("X-MEMBRIDGE-AGENT", workerKey)) == 0 {
			s.Error("the agent that was called got no key")
		}
	}
	withBoth := append(slices.Clone(withKey), withAdmin...)
	alone, up := []string{"membridge"}, []string{"up"}
	return map[string]scene{
		"membridge's address":       {roles: alone, sets: []set{{"--listen", "127.0.0.3:0", listens("127.0.0.3", "")}}},
		"membridge's address in up": {roles: up, sets: []set{{"--membridge-listen", "127.0.0.3:0", listens("127.0.0.3", "")}}},
		"membridge's port":          {roles: alone, sets: hostAndPort("--")},
		"membridge's port in up":    {roles: up, sets: hostAndPort("--membridge-")},
		"agent tokens":              {roles: alone, also: withKey, sets: []set{{"--agent-tokens", "required", needsToken}}},
		"agent tokens in up":        {roles: up, also: withKey, sets: []set{{"--membridge-agent-tokens", "required", needsToken}}},
		"agent key with orders":     {roles: alone, also: withBoth, sets: []set{{"--sync-agent-key", "", sendsAgentKey}}},
		"agent key with orders, up": {roles: up, also: withBoth, sets: []set{{"--membridge-sync-agent-key", "", sendsAgentKey}}},
		"agent key":                 {roles: bridges, also: withAdmin, sets: []set{{"--membridge-agent-key", workerKey, agentKey(workerKey)}}},
		"agent key in a file":       {roles: bridges, also: withAdmin, sets: []set{{"--membridge-agent-key-file", "{dir}/key", agentKey(fileKey)}}},
		"membridge's key":           {roles: bridges, sets: []set{{"--membridge-admin-key", serverKey, adminKey(serverKey)}}},
		"membridge's key in a file": {roles: bridges, sets: []set{{"--membridge-admin-key-file", "{dir}/key", adminKey(fileKey)}}},
		"runtime's address": {roles: alone, sets: []set{{"--runtime-url", "http://runtime.example:5050", func(s *stage) {
			if _, text := s.call("POST", s.bridgeURL()+"/agents", agentBody); !strings.Contains(text, "http://runtime.example:5050") {
				s.Error(text)
			}
		}}}},
		"limits of membridge": {roles: alone, also: withBoth, sets: []set{
			{"--rate-limit-address", "4", s429("GET", "/projects", 401, 4)},
			{"--trusted-proxy", "127.0.0.0/8", func(s *stage) {
				s.wants(401, "GET", s.bridgeURL()+"/projects", "", "X-Forwarded-For", "192.0.2.1") // another address
			}},
			{"--rate-limit-key", "5", s429("GET", "/projects", 200, 5, "X-MEMBRIDGE-ADMIN", serverKey)},
			{"--rate-limit-worker", "6", s429("POST", "/agent/heartbeat", 400, 6, "X-MEMBRIDGE-AGENT", workerKey)},
		}},
		"membridge's certificate": {roles: alone, also: withAdmin, before: func(s *stage) { s.certificate() }, sets: []set{
			{"--tls-cert", "{dir}/cert.pem", bridgeOverTLS}, {"--tls-key", "{dir}/key.pem", bridgeOverTLS},
		}},
		"membridge's certificate in up": {roles: up, also: append([]string{"--runtime-api-key=" + serverKey}, withAdmin...), before: func(s *stage) { s.certificate() }, sets: []set{
			{"--membridge-tls-cert", "{dir}/cert.pem", bridgeOverTLS}, {"--membridge-tls-key", "{dir}/key.pem", bridgeOverTLS},
		}},
		"no control plane in up": {roles: up, sets: []set{{"--no-membridge", "", func(s *stage) {
			s.wants(200, "GET", s.url()+"/api/membridge/health", "") // the stage's own
			if strings.Contains(s.out.String(), "the control plane, is at") {
				s.Error(s.out.String())
			}
		}}}},
		"no control plane": {roles: []string{"server"}, sets: []set{{"--no-membridge", "", func(s *stage) {
			s.wants(502, "GET", s.url()+"/api/membridge/health", "")
			s.wants(200, "POST", s.url()+"/api/runtime/config", `{"membridge_server_url":"http://127.0.0.1:1","admin_key":"one-of-membridge"}`)
			if _, text := s.call("POST", s.url()+"/api/runtime/test-connection", ""); !strings.Contains(text, "--no-membridge") {
				s.Error("a server without a control plane must say so, not:", text)
			}
			if _, text := s.call("GET", s.url()+"/metrics", ""); !strings.Contains(text, `loop="reaper"`) || strings.Contains(text, "bloom_membridge") || strings.Contains(text, "membridge-watch") || strings.Contains(text, "worker-sync") {
				s.Error(text)
			}
		}}}},
		"where membridge is": {roles: servers, up: noMembridge, sets: []set{
			{"--membridge-server-url", "{bridge}", reachesMembridge}}},
		"membridge's authority": {roles: servers, before: tlsBeforeMembridge, up: noMembridge, sets: []set{
			{"--membridge-server-url", "https://127.0.0.1:{port}", reachesMembridge}, {"--membridge-ca-file", "{dir}/cert.pem", reachesMembridge},
		}},
		"key to membridge": {roles: []string{"server"}, sets: []set{{"--membridge-admin-key", serverKey, asksMembridge("X-MEMBRIDGE-ADMIN", serverKey)}}},
		"key to membridge in a file": {roles: []string{"server"}, sets: []set{
			{"--membridge-admin-key-file", "{dir}/key", asksMembridge("X-MEMBRIDGE-ADMIN", fileKey)}}},
	}
}

// bridgeOverTLS checks that membridge uses TLS, and that the rest of its process still reaches it.
func bridgeOverTLS(s *stage) {
	var res *http.Response
	var text string
	s.await("a control plane that has started", func() bool {
		res, text = s.secure(nil, "GET", s.bridgeURL()+"/health", "")
		return res.StatusCode != http.StatusServiceUnavailable
	})
	if res.StatusCode != 200 || res.Header.Get("Strict-Transport-Security") == "" || !strings.HasPrefix(s.bridgeURL(), "https://") {
		s.Errorf("over TLS: %d %s, %v", res.StatusCode, text, res.Header)
	}
	if s.role == "up" {
		s.await("the worker to be known to membridge", func() bool {
			_, text := s.call("GET", s.url()+"/api/membridge/agents", "", "X-Runtime-API-Key", serverKey)
			return strings.Contains(text, `"status":"online"`)
		})
	}
}

// tlsBeforeMembridge puts TLS in front of the stage's membridge.
func tlsBeforeMembridge(s *stage) {
	s.listenTLS(&tls.Config{Certificates: []tls.Certificate{s.certificate()}}, s.bridge.membridge())
}

// reachesMembridge waits until the stage's membridge gets a request.
func reachesMembridge(s *stage) {
	s.await("a call", func() bool { return s.bridge.count(func(recorded) bool { return true }) > 0 })
}

// asksMembridge waits until the stage's membridge gets the key.
func asksMembridge(header, key string) func(*stage) {
	return func(s *stage) {
		s.await(header+" "+key, func() bool { return s.bridge.count(with(header, key)) > 0 })
	}
}

// announceScenes test how a worker finds the runtime and membridge.
func announceScenes() map[string]scene {
	asksRuntime := func(s *stage) {
		s.await("a call with the key", func() bool { return s.seen.count(with("X-Runtime-Api-Key", runtimetest.AdminKey)) > 0 })
	}
	one := func(flag, value, header, key string) scene {
		return scene{roles: []string{"worker"}, also: []string{"--membridge-url={bridge}"}, sets: []set{{flag, value, asksMembridge(header, key)}}}
	}
	return map[string]scene{
		"runtime": {roles: []string{"worker"}, sets: []set{
			{"--url", "{runtime}", asksRuntime}, {"--api-key", runtimetest.AdminKey, asksRuntime}}},
		"runtime, key in a file": {roles: []string{"worker"}, sets: []set{{"--key-file", "{dir}/admin-key", asksRuntime}}},
		"membridge": {roles: []string{"worker"}, sets: []set{{"--membridge-url", "{bridge}", func(s *stage) {
			s.await("a registration", func() bool { return s.bridge.count(func(r recorded) bool { return r.path == "/agents" }) > 0 })
		}}}},
		"worker's authority of membridge": {roles: []string{"worker"}, before: tlsBeforeMembridge, sets: []set{
			{"--membridge-url", "https://127.0.0.1:{port}", reachesMembridge}, {"--membridge-ca-file", "{dir}/cert.pem", reachesMembridge},
		}},
		"worker's agent key":           one("--membridge-agent-key", serverKey, "X-MEMBRIDGE-AGENT", serverKey),
		"worker's agent key in a file": one("--membridge-agent-key-file", "{dir}/key", "X-MEMBRIDGE-AGENT", fileKey),
		"worker's admin key":           one("--membridge-admin-key", serverKey, "X-MEMBRIDGE-ADMIN", serverKey),
		"worker's admin key in a file": one("--membridge-admin-key-file", "{dir}/key", "X-MEMBRIDGE-ADMIN", fileKey),
	}
}
