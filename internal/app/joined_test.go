package app_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

func TestUpJoinsAllThree(t *testing.T) {
	t.Parallel()
	cfg := app.UpConfig{Server: serverConfig(t), Membridge: config.Membridge{MembridgeAddress: config.MembridgeAddress{MembridgeListen: "127.0.0.1:0"}},
		Run: config.Run{Name: "w", MaxConcurrency: 1, Claude: fakeClaude(t), Workdir: t.TempDir(), LeaseTTL: time.Minute, DrainGrace: time.Second}}
	cfg.Server.RuntimeAPIKey, cfg.Server.MembridgeAdminKey = key, key+"-of-membridge"
	up, err := app.OpenUp(t.Context(), cfg, build())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- up.Run(ctx, context.Background()) }()
	bridge, err := mbclient.New(mbclient.Options{URL: up.Membridge.URL(), Key: key + "-of-membridge"})
	if err != nil {
		t.Fatal(err)
	}
	defer bridge.Close()
	status := func() bloom.WorkerStatus {
		agents, err := bridge.Agents(t.Context())
		if err != nil || len(agents) == 0 {
			return ""
		}
		return agents[0].Status
	}
	for deadline := time.Now().Add(2 * time.Minute); status() != bloom.WorkerOnline; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("membridge calls the worker %q", status())
		}
	}
	// Membridge's responses contain the URL of the runtime beside it.
	if address, err := bridge.RegisterAgent(t.Context(), mbclient.Registration{Name: "other", Capabilities: bloom.Capabilities{MaxConcurrency: 1}}); err != nil || address != up.Server.URL() {
		t.Errorf("the runtime is reported at %q, %v, and is at %q", address, err, up.Server.URL())
	}
	const answered = "bloom_membridge_last_success_timestamp_seconds"
	for deadline := time.Now().Add(2 * time.Minute); scrapeMetrics(t, up.Server.URL())[answered] == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("there is no %s", answered)
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := up.Close(); err != nil {
		t.Errorf("it closed with %v", err)
	}
}

// upConfig configures a server and a control plane without a worker.
func upConfig(t *testing.T, dir string) app.UpConfig {
	cfg := app.UpConfig{Server: serverConfigAt(dir), NoWorker: true,
		Membridge: config.Membridge{MembridgeAddress: config.MembridgeAddress{MembridgeListen: "127.0.0.1:0"}}}
	cfg.Server.RuntimeAPIKey = key
	return cfg
}

// during calls f while everything runs.
func during(t *testing.T, cfg app.UpConfig, f func(up *app.Up)) {
	t.Helper()
	up, err := app.OpenUp(t.Context(), cfg, build())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- up.Run(ctx, context.Background()) }()
	f(up)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := up.Close(); err != nil {
		t.Errorf("it closed with %v", err)
	}
}

// post registers an agent like an operator and returns the status.
func post(t *testing.T, up *app.Up, adminKey, name string) int {
	t.Helper()
	return postWith(t, up, name, "X-MEMBRIDGE-ADMIN", adminKey)
}

// postWith registers an agent with these headers.
func postWith(t *testing.T, up *app.Up, name string, headers ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, up.Membridge.URL()+"/agents", strings.NewReader(`{"name":"`+name+`","status":"online"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// Membridge beside a server requires no key from this machine exactly as long as the server
// requires none.
func TestTheFirstKeyClosesMembridgeToo(t *testing.T) {
	t.Parallel()
	cfg := upConfig(t, t.TempDir())
	cfg.Server.RuntimeAPIKey = ""
	cfg.Server.RuntimeWorkerKey = ""
	during(t, cfg, func(up *app.Up) {
		if got := postWith(t, up, "a"); got != http.StatusCreated {
			t.Errorf("before there is a key: %d", got)
		}
		if got := postWith(t, up, "b", "X-MEMBRIDGE-ADMIN", "a-wrong-key-of-nobody"); got != http.StatusCreated {
			t.Errorf("with a wrong key, before there is one: %d", got)
		}
		api, err := client.New(up.Server.URL(), client.Options{})
		if err == nil {
			_, err = api.CreateKey(t.Context(), bloom.KeySpec{Name: "first", Role: bloom.RoleAdmin})
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := postWith(t, up, "c"); got != http.StatusUnauthorized {
			t.Errorf("with a stored key: %d", got)
		}
		if got := postWith(t, up, "c", "X-Forwarded-For", "10.0.0.1"); got != http.StatusUnauthorized {
			t.Errorf("through a proxy: %d", got)
		}
	})
	during(t, cfg, func(up *app.Up) {
		if got := postWith(t, up, "c"); got != http.StatusUnauthorized {
			t.Errorf("with a stored key, after a restart: %d", got)
		}
		raw, err := os.ReadFile(up.MembridgeKeyFile)
		if err != nil {
			t.Fatal(err)
		}
		if got := post(t, up, strings.TrimSpace(string(raw)), "c"); got != http.StatusCreated {
			t.Errorf("with membridge's key: %d", got)
		}
	})
}
