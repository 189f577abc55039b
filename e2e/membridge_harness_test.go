package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/porttest"
)

// The keys of every control plane under test.
const (
	bridgeKey = "membridge-admin-key-of-the-tests"
	agentKey  = "membridge-agent-key-of-the-tests"
)

// bridge is a control plane in a process of its own.
type bridge struct {
	h   *harness
	url string // the same after restarts
	dir string
}

func (h *harness) bridge() *bridge {
	h.t.Helper()
	return &bridge{h: h, url: "http://" + porttest.Address(h.t), dir: filepath.Join(h.dir, "membridge")}
}

// start starts or restarts the control plane, on the same folder and port.
func (b *bridge) start(args ...string) *proc {
	b.h.t.Helper()
	p := spawn(b.h.t, "membridge", b.h.env("MEMBRIDGE_ADMIN_KEY="+bridgeKey, "MEMBRIDGE_AGENT_KEY="+agentKey),
		append([]string{"membridge", "--data-dir", b.dir, "--listen", strings.TrimPrefix(b.url, "http://")}, args...)...)
	b.h.workers = append(b.h.workers, p) // stopped like the workers
	p.says("listens at")
	return p
}

// serveFor starts a runtime that uses the control plane.
func (b *bridge) serveFor(args ...string) *proc {
	b.h.t.Helper()
	file := filepath.Join(b.h.dir, "membridge-admin-key")
	if err := os.WriteFile(file, []byte(bridgeKey), 0o600); err != nil {
		b.h.t.Fatal(err)
	}
	return b.h.serve(append([]string{"--membridge-server-url", b.url, "--membridge-admin-key-file", file}, args...)...)
}

// ask sends a request to the control plane and returns status and body.
func (b *bridge) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	return fetch(t, method, b.url+path, body, "X-MEMBRIDGE-ADMIN", bridgeKey)
}

// agents returns what the control plane lists.
func (b *bridge) agents(t *testing.T) (list []struct {
	Name   string             `json:"name"`
	Status bloom.WorkerStatus `json:"status"`
}) {
	t.Helper()
	if _, body := b.ask(t, "GET", "/agents", ""); json.Unmarshal([]byte(body), &list) != nil {
		t.Fatalf("agents: %s", body)
	}
	return list
}

// knows reports whether the control plane lists the worker with that status.
func (b *bridge) knows(t *testing.T, name string, status bloom.WorkerStatus) bool {
	t.Helper()
	for _, a := range b.agents(t) {
		if a.Name == name {
			return a.Status == status
		}
	}
	return false
}

// reach chooses the runtime's address before it is started.
func (h *harness) reach() {
	h.t.Helper()
	h.url = "http://" + porttest.Address(h.t)
	api, err := client.New(h.url, client.Options{APIKey: adminKey, Retry: client.Retry{Tries: 60, Max: 500e6}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.api = api
	h.t.Cleanup(api.Close)
}

// proxy sends a request to the runtime's /api/membridge.
func (h *harness) proxy(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	return fetch(t, method, h.url+"/api/membridge"+path, body, "X-Runtime-API-Key", adminKey)
}

// link returns the connection to the control plane as the runtime's health shows it.
func (h *harness) link(t *testing.T) *client.MembridgeHealth {
	t.Helper()
	health, err := h.api.Health(t.Context())
	if err != nil || health.Membridge == nil {
		t.Fatalf("health: %+v, %v", health, err)
	}
	return health.Membridge
}

// stub writes a program that replaces claude: it waits until the file gate exists, then answers
// "pong".
func (h *harness) stub(gate string) string {
	path := filepath.Join(h.dir, "stub-"+filepath.Base(gate))
	file(h.t, path, fmt.Sprintf(`#!/bin/sh
case "$1" in --version) echo "2.1.197 (Claude Code)"; exit 0;; auth) echo '{"loggedIn":true,"authMethod":"api_key"}'; exit 0;; esac
cat >/dev/null
while [ ! -e '%s' ]; do sleep 0.3; done
echo '{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","tools":[]}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"pong","session_id":"11111111-1111-4111-8111-111111111111","num_turns":1,"duration_ms":5,"usage":{"input_tokens":1,"output_tokens":1}}'
`, gate))
	if err := os.Chmod(path, 0o700); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// gate returns the path of a file that the stub waits for.
func (h *harness) gate(name string) string { return filepath.Join(h.dir, name) }

// stubWorker starts a worker with the stub as claude. The caller chooses which of the two addresses
// it gets.
func (h *harness) stubWorker(name, gate string, args ...string) *proc {
	h.t.Helper()
	p := spawn(h.t, "worker "+name, h.env("BLOOM_API_KEY="+workerKey, "MEMBRIDGE_AGENT_KEY="+agentKey, markName+"="+h.markOf(name)), append([]string{
		"worker", "--name", name, "--data-dir", filepath.Join(h.dir, "data-"+name),
		"--claude", h.stub(gate), "--pass-env", markName, "--label", name, "--membridge-interval", "1s",
	}, args...)...)
	h.workers = append(h.workers, p)
	return p
}

// worker returns one worker, and whether the runtime lists it.
func (h *harness) worker(t *testing.T, name string) (bloom.Worker, bool) {
	t.Helper()
	detail, err := h.api.Worker(t.Context(), name)
	return detail.Worker, err == nil
}
