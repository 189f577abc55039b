package app_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

func TestUpRequiresAgentTokensIfConfigured(t *testing.T) {
	t.Parallel()
	const agents, token = key + "-of-agents", "the-token-of-one-agent"
	for want, without := range map[string]int{"": http.StatusCreated, "optional": http.StatusCreated, config.TokensRequired: http.StatusUnauthorized} {
		cfg := upConfig(t, t.TempDir())
		cfg.Membridge.AgentKey, cfg.Membridge.AgentTokens = agents, want
		during(t, cfg, func(up *app.Up) {
			if got := postWith(t, up, "a", "X-MEMBRIDGE-AGENT", agents); got != without {
				t.Errorf("tokens %q: without one %d, want %d", want, got, without)
			}
			if got := postWith(t, up, "b", "X-MEMBRIDGE-AGENT", agents, "X-MEMBRIDGE-TOKEN", token); got != http.StatusCreated {
				t.Errorf("tokens %q: with one %d", want, got)
			}
		})
	}
}

func TestUpKeepsMembridgesRegistryInTheDatabaseItIsGiven(t *testing.T) {
	t.Parallel()
	database := config.Secret(pgtest.Start(t))
	for i, dir := range []string{t.TempDir(), t.TempDir()} {
		cfg := upConfig(t, dir)
		cfg.Server.DatabaseURL, cfg.Server.MembridgeAdminKey = database, key+"-of-membridge"
		during(t, cfg, func(up *app.Up) {
			want := []int{http.StatusCreated, http.StatusOK}[i] // known from another folder
			if got := post(t, up, key+"-of-membridge", "worker-01"); got != want {
				t.Errorf("POST /agents from folder %d: %d, want %d", i, got, want)
			}
		})
	}
}

func TestAServerThatDoesNotSyncKnowsHowMembridgeIs(t *testing.T) {
	t.Parallel()
	bridge := config.Membridge{MembridgeAddress: config.MembridgeAddress{MembridgeListen: "127.0.0.1:0"}}
	m, err := app.OpenMembridge(t.Context(), app.MembridgeConfig{Membridge: bridge, DataDir: t.TempDir(), AdminKey: key + "-of-membridge"}, build())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	go func() { ended <- m.Run(ctx, context.Background()) }()
	database := config.Secret(pgtest.Start(t))
	var servers []*app.Server
	for range 2 {
		cfg := serverConfig(t)
		cfg.RuntimeAPIKey, cfg.DatabaseURL = key, database
		cfg.MembridgeServerURL, cfg.MembridgeAdminKey, cfg.SyncInterval = m.URL(), key+"-of-membridge", 50*time.Millisecond
		s, err := app.OpenServer(t.Context(), cfg, build())
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, s)
		go func() { ended <- s.Run(ctx, context.Background()) }()
	}
	for _, s := range servers { // one of them syncs
		api, err := client.New(s.URL(), client.Options{APIKey: key})
		if err != nil {
			t.Fatal(err)
		}
		health(t, api, func(h *client.MembridgeHealth) bool { return h.Connected })
		api.Close()
	}
	stop()
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for _, s := range servers {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestAGeneratedMembridgeKeyIsStoredForItsOperator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, want := range []int{http.StatusCreated, http.StatusOK} { // the same after a restart
		during(t, upConfig(t, dir), func(up *app.Up) {
			if up.MembridgeKeyFile != filepath.Join(dir, "membridge-admin-key") {
				t.Fatalf("the key is said to be in %q", up.MembridgeKeyFile)
			}
			info, err := os.Stat(up.MembridgeKeyFile)
			raw, readErr := os.ReadFile(up.MembridgeKeyFile)
			if err != nil || readErr != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("%v, %v, %v", info, err, readErr)
			}
			if got := post(t, up, strings.TrimSpace(string(raw)), "worker-01"); got != want {
				t.Errorf("POST /agents: %d, want %d", got, want)
			}
		})
	}
	cfg := upConfig(t, dir)
	cfg.Server.MembridgeAdminKey = key + "-of-membridge"
	during(t, cfg, func(up *app.Up) {
		if got := post(t, up, key+"-of-membridge", "worker-01"); got != http.StatusOK || up.MembridgeKeyFile != "" {
			t.Errorf("POST /agents with the key that was given: %d; key file %q", got, up.MembridgeKeyFile)
		}
	})
}
