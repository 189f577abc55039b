package e2e_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestNoSecretLeaks gives every secret setting of a server, a worker and its claude a unique value,
// sends invalid requests that contain more of them, and searches for each in the logs, the metrics,
// the audit, error responses, the spans and the database.
func TestNoSecretLeaks(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	sink := &spanSink{}
	otlp := httptest.NewServer(sink)
	t.Cleanup(otlp.Close)
	secrets := map[string]string{"admin key": adminKey, "worker key": workerKey}
	canary := func(name string) string {
		secrets[name] = "CANARY-" + name + "-0123456789abcdef"
		return secrets[name]
	}
	sealing := strings.Repeat("c4a7", 16)
	secrets["sealing key"] = sealing
	storage := []string{"MINIO_ENDPOINT=127.0.0.1", "MINIO_PORT=9", "MINIO_ACCESS_KEY=canary", "MINIO_SECRET_KEY=" + canary("s3"), "BLOOM_SECRET_KEY=" + sealing,
		"BLOOM_OIDC_ISSUER=http://127.0.0.1:9", "BLOOM_OIDC_CLIENT_ID=bloom", "BLOOM_OIDC_CLIENT_SECRET=" + canary("oidc"), "BLOOM_OIDC_ROLES=viewer=*",
		"BLOOM_OIDC_REDIRECT_URL=https://bloom.example.org/api/runtime/session/oidc/callback"}
	env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + otlp.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_HEADERS=authorization=" + canary("otlp"),
		"MEMBRIDGE_ADMIN_KEY=" + canary("membridge"), "MEMBRIDGE_SERVER_URL=http://127.0.0.1:9"}
	h.script("fails", func(standin.Request) standin.Reply {
		return standin.Error(http.StatusBadRequest, "invalid_request_error", "malformed")
	})
	h.script("works", func(standin.Request) standin.Reply { return standin.Reply{Text: "done"} })
	server := h.serveWith(append(storage, env...), "--log-level", "debug")
	worker := h.work(workerOptions{name: "w1", env: append(h.modelEnv("ANTHROPIC_API_KEY="+canary("anthropic")), append(env, "MEMBRIDGE_AGENT_KEY="+canary("agent"))...),
		args: []string{"--log-level", "debug"}})
	for scenario, want := range map[string]bloom.TaskStatus{"works": bloom.TaskCompleted, "fails": bloom.TaskFailed} {
		s := spec(scenario)
		s.MaxAttempts = 1
		if o := h.await(t, h.submit(t, s).ID); o.task.Status != want {
			t.Errorf("%s: the task is %s; %s", scenario, o.task.Status, o.story())
		}
	}
	var output strings.Builder // everything that others might read
	wrong := func(method, path, body string, header ...string) {
		t.Helper()
		status, answer := h.raw(t, method, path, body, header...)
		if status < 400 {
			t.Errorf("%s %s: %d, and should fail", method, path, status)
		}
		fmt.Fprintln(&output, answer)
	}
	wrong("GET", "/stats", "", "X-Runtime-API-Key", canary("wrong-key"))
	wrong("GET", "/stats", "", "X-Runtime-API-Key", "", "Authorization", "Bearer "+canary("bearer"))
	wrong("GET", "/stats", "", "X-Runtime-API-Key", "", "Cookie", "bloom_session=v1:"+canary("cookie")+"; __Host-bloom_session="+canary("cookie"))
	wrong("GET", "/llm-tasks?limit="+canary("query"), "")
	wrong("GET", "/nothing?key="+canary("query"), "")
	wrong("POST", "/session", `{"key":"`+canary("sign-in")+`"}`)
	wrong("POST", "/llm-tasks", `{"prompt":{"`+canary("body")+`":1},"context_id":7}`)
	wrong("POST", "/llm-tasks", canary("body"))
	wrong("POST", "/config", `{"membridge_server_url":"http://x:`+canary("body")+`@127.0.0.1:9","admin_key":"`+canary("saved")+`"}`)
	if status, answer := h.raw(t, "POST", "/config", `{"membridge_server_url":"http://127.0.0.1:9","admin_key":"`+canary("saved")+`"}`); status != 200 {
		t.Errorf("%d %s", status, answer)
	} else {
		output.WriteString(answer)
	}
	for _, path := range []string{"/session/oidc", "/session/oidc/callback?code=" + canary("code") + "&state=" + canary("state")} { // both lead to a page
		_, answer := h.raw(t, "GET", path, "", "X-Runtime-API-Key", "")
		output.WriteString(answer)
	}
	made := h.secretsMade(t, secrets)
	wrong("GET", "/keys", "", "X-Runtime-API-Key", made)
	for _, path := range []string{"/config", "/keys", "/sessions", "/problems", "/health", "/audit?limit=1000", "/workers", "/llm-tasks", "/runs"} {
		_, answer := h.raw(t, "GET", path, "")
		output.WriteString(answer)
	}
	_, answer := h.raw(t, "POST", "/test-connection", "")
	output.WriteString(answer)
	output.WriteString(h.metrics(t))
	output.WriteString(h.membridgeOutput(t, secrets, canary))
	h.stop(worker)
	h.stop(server)
	sink.mu.Lock()
	output.Write(sink.raw)
	sink.mu.Unlock()
	if len(sink.raw) == 0 {
		t.Error("no span was exported, none could contain a secret")
	}
	output.WriteString(worker.out.String())
	output.WriteString(server.out.String())
	for _, part := range []string{"bloom.db", "bloom.db-wal"} { // what someone with the database file can read
		raw, err := os.ReadFile(filepath.Join(h.dir, "server", part))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		output.Write(raw)
	}
	for _, there := range []string{"GET /api/runtime/nothing 404", "a sign-in at the provider failed", "check bucket", "bloom_build_info", "config_updated", "task begun", "run claude", "SQLite format 3"} {
		if !strings.Contains(output.String(), there) {
			t.Errorf("%q was not looked at", there)
		}
	}
	for name, secret := range secrets {
		if at := strings.Index(output.String(), secret); at >= 0 {
			t.Errorf("the secret %q leaks: …%.200q", name, output.String()[max(0, at-100):])
		}
	}
}

// secretsMade has the server create secrets: a viewer's key, which it returns, and an admin's
// session.
func (h *harness) secretsMade(t *testing.T, secrets map[string]string) string {
	t.Helper()
	status, answer := h.raw(t, "POST", "/keys", `{"name":"viewer","role":"viewer"}`)
	var k bloom.CreatedKey
	if err := json.Unmarshal([]byte(answer), &k); err != nil || status != 201 {
		t.Fatalf("%d %s: %v", status, answer, err)
	}
	secrets["created key"] = k.Key
	req, err := http.NewRequestWithContext(t.Context(), "POST", h.url+"/api/runtime/session", strings.NewReader(`{"key":"`+adminKey+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, c := range resp.Cookies() {
		secrets["session"] = c.Value
	}
	if secrets["session"] == "" {
		t.Errorf("no session: %s", resp.Status)
	}
	return k.Key
}

// membridgeOutput returns what a control plane with TLS prints and answers: to its admin, to
// callers with wrong keys, and when it is started with unusable certificates.
func (h *harness) membridgeOutput(t *testing.T, secrets map[string]string, canary func(string) string) string {
	t.Helper()
	cert, key := certificate(t, t.TempDir())
	secrets["TLS key"] = strings.Split(read(t, key), "\n")[1]
	broken := filepath.Join(t.TempDir(), "broken.pem")
	file(t, broken, "-----BEGIN PRIVATE KEY-----\n"+canary("broken TLS key")+"\n-----END PRIVATE KEY-----\n")
	env := h.env("MEMBRIDGE_ADMIN_KEY="+canary("plane"), "MEMBRIDGE_AGENT_KEY="+canary("plane agent"), "BLOOM_LOG_LEVEL=debug")
	args := func(key string) []string {
		return []string{"membridge", "--data-dir", filepath.Join(h.dir, "plane"), "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key}
	}
	var output strings.Builder
	failed := spawn(t, "membridge with a broken key", env, args(broken)...)
	if code := failed.wait(); code == 0 {
		t.Error("membridge started with a broken key")
	}
	output.WriteString(failed.out.String())
	failed = spawn(t, "a server with a password for nobody", h.env("DATABASE_URL=postgres://bloom:"+canary("database")+"@127.0.0.1:9/x?connect_timeout=1", "RUNTIME_API_KEY="+adminKey),
		"server", "--data-dir", filepath.Join(h.dir, "nowhere"), "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	failed.says("127.0.0.1:9")
	failed.kill()
	output.WriteString(failed.out.String())

	plane := spawn(t, "membridge", env, args(key)...)
	_, rest, _ := strings.Cut(plane.says("Membridge listens at"), "Membridge listens at ")
	at, _, _ := strings.Cut(rest, ",")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	for _, c := range []struct{ method, path, body, header, value string }{
		{"GET", "/agents", "", "X-MEMBRIDGE-ADMIN", canary("wrong plane")}, {"POST", "/agents", `{"name":"a"}`, "X-MEMBRIDGE-AGENT", canary("wrong plane agent")},
		{"POST", "/agents", `{"name":{"` + canary("plane body") + `":1}}`, "X-MEMBRIDGE-ADMIN", secrets["plane"]}, {"POST", "/agents", `{"name":"a"}`, "X-MEMBRIDGE-AGENT", secrets["plane agent"]},
		{"GET", "/agents?token=" + canary("plane query"), "", "Authorization", "Bearer " + secrets["plane"]}, {"GET", "/metrics", "", "X-MEMBRIDGE-ADMIN", secrets["plane"]},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, at+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(c.header, c.value)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-MEMBRIDGE-TOKEN", canary("token of an agent"))
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		output.Write(answer)
	}
	h.stop(plane)
	output.WriteString(plane.out.String())
	for _, there := range []string{"membridge_http_requests_total", `"name":"a"`, "GET /agents 401"} {
		if !strings.Contains(output.String(), there) {
			t.Errorf("of membridge %q was not looked at", there)
		}
	}
	for _, part := range []string{"membridge.db", "membridge.db-wal"} {
		raw, err := os.ReadFile(filepath.Join(h.dir, "plane", part))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		output.Write(raw)
	}
	return output.String()
}

// metrics returns what Prometheus scrapes from the server.
func (h *harness) metrics(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Runtime-API-Key", adminKey)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %s: %v", resp.StatusCode, text, err)
	}
	return string(text)
}
