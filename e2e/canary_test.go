package e2e_test

import (
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

// TestNoSecretIsTold gives every secret setting of a server, a worker and its claude a
// value of its own, sends wrong requests that hold more of them, and looks for each in
// the logs, the metrics, the audit, the answers to errors, the spans and the database.
func TestNoSecretIsTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	sink := &spanSink{}
	otlp := httptest.NewServer(sink)
	t.Cleanup(otlp.Close)
	canary := func(name string) string { return "CANARY-" + name + "-0123456789abcdef" }
	names := []string{"membridge", "saved", "anthropic", "otlp", "wrong-key", "bearer", "cookie", "query", "body", "sign-in", "agent", "provider"}
	env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + otlp.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_HEADERS=authorization=" + canary("otlp"),
		"MEMBRIDGE_ADMIN_KEY=" + canary("membridge"), "MEMBRIDGE_SERVER_URL=http://127.0.0.1:9"}
	h.script("fails", func(standin.Request) standin.Reply {
		return standin.Error(http.StatusUnauthorized, "authentication_error", "invalid x-api-key")
	})
	h.script("works", func(standin.Request) standin.Reply { return standin.Reply{Text: "done"} })
	server := h.serveWith(env, "--log-level", "debug")
	worker := h.work(workerOptions{name: "w1", env: append(h.modelEnv("ANTHROPIC_API_KEY="+canary("anthropic")), append(env, "MEMBRIDGE_AGENT_KEY="+canary("agent"))...),
		args: []string{"--log-level", "debug"}})
	for scenario, want := range map[string]bloom.TaskStatus{"works": bloom.TaskCompleted, "fails": bloom.TaskFailed} {
		s := spec(scenario)
		s.MaxAttempts = 1
		if o := h.await(t, h.submit(t, s).ID); o.task.Status != want {
			t.Errorf("%s: the task is %s; %s", scenario, o.task.Status, o.story())
		}
	}
	var told strings.Builder // what anybody might read
	wrong := func(method, path, body string, header ...string) {
		t.Helper()
		status, answer := h.raw(t, method, path, body, header...)
		if status < 400 {
			t.Errorf("%s %s: %d, and should fail", method, path, status)
		}
		fmt.Fprintln(&told, answer)
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
		told.WriteString(answer)
	}
	for _, path := range []string{"/config", "/health", "/audit?limit=1000", "/workers", "/llm-tasks", "/runs"} {
		_, answer := h.raw(t, "GET", path, "")
		told.WriteString(answer)
	}
	_, answer := h.raw(t, "POST", "/test-connection", "")
	told.WriteString(answer)
	told.WriteString(h.metrics(t))
	h.stop(worker)
	h.stop(server)
	sink.mu.Lock()
	told.Write(sink.raw)
	sink.mu.Unlock()
	if len(sink.raw) == 0 {
		t.Error("no span was exported, none could tell a secret")
	}
	told.WriteString(worker.out.String())
	told.WriteString(server.out.String())
	for _, part := range []string{"bloom.db", "bloom.db-wal"} { // what somebody reads who gets at the database
		raw, err := os.ReadFile(filepath.Join(h.dir, "server", part))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		told.Write(raw)
	}
	for _, there := range []string{"GET /api/runtime/nothing 404", "bloom_build_info", "config_updated", "task begun", "run claude", "SQLite format 3"} {
		if !strings.Contains(told.String(), there) {
			t.Errorf("%q was not looked at", there)
		}
	}
	for _, secret := range []string{adminKey, workerKey} {
		if strings.Contains(told.String(), secret) {
			t.Errorf("%s is told", secret)
		}
	}
	for _, name := range names {
		if at := strings.Index(told.String(), canary(name)); at >= 0 {
			t.Errorf("%s is told: …%.200q", canary(name), told.String()[max(0, at-100):])
		}
	}
}

// metrics is what Prometheus reads of the server.
func (h *house) metrics(t *testing.T) string {
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
