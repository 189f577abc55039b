package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/front"
	"github.com/bloom-runtime/bloom/internal/membridge/announce"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/telemetry"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// WorkerConfig configures a worker.
type WorkerConfig struct {
	Run     config.Run
	DataDir string
	// URL and Key are of the runtime. Without a URL membridge provides it.
	URL string
	Key string
	// TLS configures connections to the runtime; nil for the system's root certificates.
	TLS *tls.Config
	// Membridge is where the worker also registers. Without its address the runtime provides it,
	// unless NoMembridge.
	Membridge   MembridgeAccount
	NoMembridge bool
	// Memory is the project's memory to synchronize, nil for none. MemoryEvery is how often; 0
	// means only on membridge's request.
	Memory      *config.Memory
	MemoryEvery time.Duration
	// InstallMethod is shown with the worker: how it was installed.
	InstallMethod string
}

// Worker is a worker, ready to run.
type Worker struct {
	cfg    WorkerConfig
	log    *slog.Logger
	claude claude.Config
	runner *claude.Runner
	moves  transcripts
	inside worker.Config
	about  bloom.WorkerSpec
	route  *route

	bridge    *mbclient.Client // has no address until membridge is known
	announcer *announce.Announcer
	memory    *memoryAgent  // nil for none
	invited   chan struct{} // closed when membridge is known
	invite    sync.Once

	inner atomic.Pointer[worker.Worker] // nil until the runtime's address is known
	leave func()                        // reports to membridge that the worker goes offline; set by Run

	drainMu sync.Mutex
	drain   *bool         // whether membridge drains it; nil before its first response
	heard   chan struct{} // closed with the first response
}

// OpenWorker builds a worker. It makes no requests before Run.
func OpenWorker(cfg WorkerConfig, b Build) (_ *Worker, err error) {
	if cfg.URL == "" && cfg.Membridge.URL == "" {
		return nil, errors.New("a worker requires the runtime's address, or membridge's, which provides it")
	}
	// Two workers on one machine may share a data directory, but not a state folder.
	state := filepath.Join(cfg.DataDir, "workers", url.PathEscape(cfg.Run.Name))
	if err := claudeConfig(cfg.Run, state, nil, b.Logger).Validate(); err != nil {
		return nil, ConfigError{err}
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	tail := worker.NewTail(cfg.Key, os.Getenv("ANTHROPIC_API_KEY"), os.Getenv("ANTHROPIC_AUTH_TOKEN"), os.Getenv("CLAUDE_CODE_OAUTH_TOKEN"))
	b.Logger = tail.Logger(b.Logger)
	w := &Worker{cfg: cfg, heard: make(chan struct{}), log: b.Logger, route: newRoute(cfg.TLS), invited: make(chan struct{})}
	w.claude = claudeConfig(cfg.Run, filepath.Join(state, "sessions"), &w.moves, b.Logger)
	if own, err := filepath.Abs(filepath.Join(cfg.DataDir, "workdir")); err == nil {
		w.claude.OnlyContexts = cfg.Run.PerContext() && cfg.Run.Workdir == own
	}
	w.claude.AwaitOutcome = func(ctx context.Context, leaseID string) error { return w.inner.Load().AwaitOutcome(ctx, leaseID) }
	runner, err := claude.New(w.claude)
	if err != nil {
		return nil, err
	}
	w.runner = runner
	w.about = bloom.WorkerSpec{AgentVersion: b.Version, OSInfo: runtime.GOOS + "/" + runtime.GOARCH,
		IPAddrs: addresses(), InstallMethod: cfg.InstallMethod}
	w.inside = worker.Config{
		Name: cfg.Run.Name, StateDir: filepath.Join(state, "state"), Runner: traced{runner, b.Tracing}, Ready: runner.Usable, Forget: runner.Forget, Accepted: runner.Accepted,
		Capabilities: w.capabilities(), About: w.about, Agents: w.claude.Agents, Setup: runner.Setup, Tail: tail,
		LeaseTTL: cfg.Run.LeaseTTL, Grace: grace(cfg.Run), Logger: b.Logger, OnStopped: func() { w.leave() },
	}
	token, err := agentToken(state)
	if err != nil {
		return nil, err
	}
	if w.bridge, err = cfg.Membridge.client(token); err != nil {
		return nil, err
	}
	if cfg.Memory != nil {
		if w.memory, err = openMemoryAgent(*cfg.Memory, cfg.MemoryEvery, cfg.Run.AnnounceEvery, w.bridge, b); err != nil {
			return nil, err
		}
	}
	w.announcer = w.newAnnouncer()
	if cfg.Membridge.URL != "" {
		w.invite.Do(func() { close(w.invited) })
	} else if !cfg.NoMembridge {
		w.inside.OnMembridge = w.invitedTo
	}
	if cfg.URL == "" {
		return w, nil
	}
	if err := w.route.setAddress(cfg.URL); err != nil {
		return nil, err
	}
	return w, w.build(cfg.URL)
}

// traced runs tasks within a span, which is passed to claude.
type traced struct {
	runner  worker.Runner
	tracing *telemetry.Tracing
}

// Run runs a task.
func (t traced) Run(ctx context.Context, task bloom.Task, emit func(typ string, data any)) attempt.Run {
	parent, done := t.tracing.Run(ctx, task)
	run := t.runner.Run(claude.WithTraceParent(ctx, parent), task, emit)
	done(run)
	return run
}

// claudeConfig returns how a worker runs claude.
func claudeConfig(run config.Run, stateDir string, moves *transcripts, log *slog.Logger) claude.Config {
	return claude.Config{
		Path: run.Claude, Workdir: run.Workdir, WorkdirPerContext: run.PerContext(), OnlyContexts: false, StateDir: stateDir, AgentsDir: run.AgentsDir,
		PermissionMode: run.PermissionMode, AllowedTools: run.AllowedTool, DisallowedTools: run.DisallowedTool,
		SettingSources: run.SettingSource, MCPConfig: run.MCPConfig, StrictMCPConfig: run.StrictMCP,
		Model: run.Model, PassEnv: run.PassEnv, Silence: run.Silence, Background: 0, Warm: run.KeepAlive, Transcripts: moves, Workspaces: workspaces{moves}, AwaitOutcome: nil, Log: log,
		Approvals: moves, ApprovalGrace: run.ApprovalGrace, AskRules: run.Ask,
		Attachments: moves, Uploads: moves, UploadGrace: 0, MaxFiles: run.UploadMaxFiles, MaxFileBytes: int64(run.UploadMaxMiB) << 20,
	}
}

// build builds the inner worker for a runtime whose address is known.
func (w *Worker) build(address string) error {
	api, err := client.New(address, client.Options{
		APIKey: w.cfg.Key, UserAgent: "bloom-worker/" + w.about.AgentVersion, HTTPClient: w.route.httpClient(),
	})
	if err != nil {
		return err
	}
	w.moves.api.Store(api)
	inside := w.inside
	inside.Client = api
	inner, err := worker.New(inside)
	if err != nil {
		return err
	}
	w.inner.Store(inner)
	w.drainMu.Lock()
	defer w.drainMu.Unlock()
	w.forwardDrain() // received before the runtime was known
	return nil
}

func (w *Worker) capabilities() bloom.Capabilities {
	return bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: w.cfg.Run.MaxConcurrency, Labels: w.cfg.Run.Label}
}

// Run works until ctx ends, then drains; when cut ends, it stops draining. The worker stays
// registered at membridge until it has drained. It first reports to membridge that it goes offline,
// because it would otherwise report the worker to the runtime as online again.
func (w *Worker) Run(ctx, cut context.Context) error {
	front.Notify(front.Ready)
	defer front.Notify(front.Stopping)
	if w.memory != nil {
		defer w.memory.start()()
	}
	w.leave = sync.OnceFunc(w.announce())
	defer w.leave()
	if w.inner.Load() == nil {
		w.log.Warn("waiting for membridge to report the runtime's address; no tasks until then (or set --runtime-url)",
			"membridge", w.cfg.Membridge.URL)
		address := w.route.waitForAddress(ctx)
		if address == "" {
			return nil
		}
		if err := w.build(address); err != nil {
			return err
		}
	}
	w.runner.Prepare()
	defer w.runner.Close()
	w.awaitDrain(ctx)
	inner := w.inner.Load()
	stop := context.AfterFunc(cut, inner.StopNow)
	defer stop()
	err := inner.Run(ctx)
	if errors.Is(err, bloom.ErrWorkerConflict) {
		return fmt.Errorf("worker %q: %w", w.cfg.Run.Name, err)
	}
	return err
}

// Claude checks the claude program without spending tokens.
func (w *Worker) Claude(ctx context.Context) (claude.Status, error) {
	return claude.Check(ctx, w.claude)
}

// grace converts "no time at all" for the worker.
func grace(r config.Run) time.Duration {
	if r.DrainGrace == 0 {
		return -1
	}
	return r.DrainGrace
}

// addresses returns at most 16 addresses of this machine.
func addresses() []string {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	out := []string{}
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && len(out) < 16 {
			out = append(out, n.IP.String())
		}
	}
	return out
}
