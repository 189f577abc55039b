package app_test

import (
	"context"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
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
	for deadline := time.Now().Add(20 * time.Second); status() != bloom.WorkerOnline; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("membridge calls the worker %q", status())
		}
	}
	// Whoever asks membridge hears where the runtime beside it is.
	if told, err := bridge.RegisterAgent(t.Context(), mbclient.Registration{Name: "other", Capabilities: bloom.Capabilities{MaxConcurrency: 1}}); err != nil || told != up.Server.URL() {
		t.Errorf("the runtime is said to be at %q, %v, and is at %q", told, err, up.Server.URL())
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := up.Close(); err != nil {
		t.Errorf("it closed with %v", err)
	}
}
