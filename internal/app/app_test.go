package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/process"
)

const key = "a-key-of-the-tests-own"

func TestMain(m *testing.M) {
	process.MaybeSupervise() // the worker runs claude under a supervisor, which is this binary again
	goleak.VerifyTestMain(m)
}

func build() app.Build {
	return app.Build{Version: "test", Logger: slog.New(slog.DiscardHandler)}
}

func serverConfig(t *testing.T) config.Server {
	t.Helper()
	return serverConfigAt(t.TempDir())
}

func serverConfigAt(dir string) config.Server {
	return config.Server{Artifacts: config.Artifacts{ArtifactLimitMiB: 64, RunTranscripts: "never"},
		Data: config.Data{DataDir: dir}, Listen: "127.0.0.1:0",
		MembridgeAccess: config.MembridgeAccess{MembridgeServerURL: "http://127.0.0.1:1"},
		ReapInterval:    30 * time.Second, ShutdownGrace: 10 * time.Second,
	}
}

// fakeClaude is a program that answers every prompt with "pong".
func fakeClaude(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claude")
	script := "#!/bin/sh\n" +
		`case "$1" in --version) echo "2.1.197 (Claude Code)"; exit 0;; auth) echo '{"loggedIn":true,"authMethod":"api_key"}'; exit 0;; esac` + "\n" +
		"cat >/dev/null\n" +
		`echo '{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","tools":[]}'` + "\n" +
		`echo '{"type":"result","subtype":"success","is_error":false,"result":"pong","session_id":"11111111-1111-4111-8111-111111111111","num_turns":1,"duration_ms":5,"usage":{"input_tokens":1,"output_tokens":1}}'` + "\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUpRunsATaskFromEndToEnd(t *testing.T) {
	t.Parallel()
	for name, apiKey := range map[string]string{"without a key": "", "with a key": key} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := app.UpConfig{Server: serverConfig(t), Membridge: config.Membridge{MembridgeAddress: config.MembridgeAddress{MembridgeListen: "127.0.0.1:0"}},
				Run: config.Run{Name: "w", MaxConcurrency: 1, Claude: fakeClaude(t), Workdir: t.TempDir(), LeaseTTL: time.Minute, DrainGrace: time.Second}}
			cfg.Server.RuntimeAPIKey = config.Secret(apiKey)
			up, err := app.OpenUp(t.Context(), cfg, build())
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- up.Run(ctx, context.Background()) }()

			api, err := client.New(up.Server.URL(), client.Options{APIKey: apiKey})
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			task, err := api.Submit(t.Context(), bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "ping"})
			if err != nil {
				t.Fatal(err)
			}
			if task, err = api.Await(t.Context(), task.ID); err != nil || task.Status != bloom.TaskCompleted {
				t.Fatalf("the task is %s, %v", task.Status, err)
			}
			if _, out, err := api.TaskOutput(t.Context(), task.ID); err != nil || string(out) != "pong" {
				t.Errorf("output %q, %v", out, err)
			}
			if test, err := api.TestConnection(t.Context()); err != nil || !test.Connected {
				t.Errorf("membridge beside it: %+v, %v", test, err)
			}
			stop()
			if err := <-ended; err != nil {
				t.Errorf("it ended with %v", err)
			}
			if err := up.Close(); err != nil {
				t.Errorf("it closed with %v", err)
			}
		})
	}
}

func TestServerEndsLongPollsAtOnceWhenItStops(t *testing.T) {
	t.Parallel()
	s, err := app.OpenServer(t.Context(), serverConfig(t), build())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, context.Background()) }()
	api, err := client.New(s.URL(), client.Options{Retry: client.NoRetry})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	if _, err := api.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w", InstanceID: "i"}); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := api.Claim(context.Background(), "w", client.Claim{InstanceID: "i", Max: 1, Wait: time.Minute})
		answered <- err
	}()
	stop()
	// Both must happen long before the poll's minute is over; otherwise the test times out.
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	<-answered
	if err := s.Close(); err != nil {
		t.Errorf("it closed with %v", err)
	}
}

func TestServerRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for name, c := range map[string]struct {
		change func(*config.Server)
		want   string
		misuse bool // it is a mistake in the settings
	}{
		"on a taken port, naming who has it": {func(c *config.Server) { c.Listen = taken.Addr().String() }, fmt.Sprintf("(process %d)", os.Getpid()), false},
		"open to others without a key":       {func(c *config.Server) { c.Listen = "0.0.0.0:0" }, "openssl rand -hex 32", true},
		"with a short key":                   {func(c *config.Server) { c.RuntimeAPIKey = "short" }, "shorter than 16", true},
		"with an address of nobody's":        {func(c *config.Server) { c.Listen = "192.0.2.1:0" }, "not an address of this machine", false},
		"with a database at no address":      {func(c *config.Server) { c.DatabaseURL = "postgres://127.0.0.1:port/d" }, "DATABASE_URL", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := serverConfig(t)
			c.change(&cfg)
			s, err := app.OpenServer(t.Context(), cfg, build())
			if err == nil {
				_ = s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if misuse := errors.As(err, new(app.ConfigError)); misuse != c.misuse {
				t.Errorf("%v is taken for a mistake in the settings: %v", err, misuse)
			}
		})
	}
}

func TestSecondServerOnTheSameFolderIsRefused(t *testing.T) {
	t.Parallel()
	cfg := serverConfig(t)
	s, err := app.OpenServer(t.Context(), cfg, build())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := app.OpenServer(t.Context(), cfg, build()); err == nil || !strings.Contains(err.Error(), "choose another --data-dir") {
		t.Errorf("got %v", err)
	}
}

func TestDevelopmentModeIsForLoopbackOnly(t *testing.T) {
	t.Parallel()
	cfg := serverConfig(t)
	s, err := app.OpenServer(t.Context(), cfg, build())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if s.Mode() != auth.ModeDevelopment {
		t.Errorf("mode %s", s.Mode())
	}
}
