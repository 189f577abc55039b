package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/worker"
)

// WorkerConfig is what a worker needs.
type WorkerConfig struct {
	Run     config.Run
	DataDir string
	// URL and Key say which runtime it works for.
	URL string
	Key string
	// InstallMethod is shown with the worker: how it came to be.
	InstallMethod string
}

// Worker is a worker, ready to run.
type Worker struct {
	worker *worker.Worker
	claude claude.Config
	name   string
	run    config.Run
}

// OpenWorker builds a worker. Nothing is asked of the server before Run.
func OpenWorker(cfg WorkerConfig, b Build) (*Worker, error) {
	api, err := client.New(cfg.URL, client.Options{APIKey: cfg.Key, UserAgent: "bloom-worker/" + b.Version})
	if err != nil {
		return nil, err
	}
	// Two workers of one machine may share a data folder, not a state folder.
	state := filepath.Join(cfg.DataDir, "workers", url.PathEscape(cfg.Run.Name))
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	w := &Worker{name: cfg.Run.Name, run: cfg.Run, claude: claude.Config{
		Path: cfg.Run.Claude, Workdir: cfg.Run.Workdir, StateDir: filepath.Join(state, "sessions"),
		AgentsDir: cfg.Run.AgentsDir, PermissionMode: cfg.Run.PermissionMode, AllowedTools: cfg.Run.AllowedTool,
		DisallowedTools: cfg.Run.DisallowedTool, SettingSources: cfg.Run.SettingSource, MCPConfig: cfg.Run.MCPConfig,
		StrictMCPConfig: cfg.Run.StrictMCP, WorkdirPerContext: cfg.Run.ContextDirs, Silence: cfg.Run.Silence,
		Model: cfg.Run.Model, PassEnv: cfg.Run.PassEnv, Log: b.Logger,
	}}
	runner, err := claude.New(w.claude)
	if err != nil {
		return nil, err
	}
	w.worker, err = worker.New(worker.Config{
		Client: api, Name: cfg.Run.Name, StateDir: filepath.Join(state, "state"), Runner: runner,
		Ready: func() error {
			_, err := claude.Locate(cfg.Run.Claude)
			return err
		},
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: cfg.Run.MaxConcurrency, Labels: cfg.Run.Label},
		About: bloom.WorkerSpec{AgentVersion: b.Version, OSInfo: runtime.GOOS + "/" + runtime.GOARCH,
			IPAddrs: addresses(), InstallMethod: cfg.InstallMethod},
		LeaseTTL: cfg.Run.LeaseTTL, Grace: grace(cfg.Run), Logger: b.Logger,
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Run works until ctx ends, then drains; the end of cut ends the draining.
func (w *Worker) Run(ctx, cut context.Context) error {
	stop := context.AfterFunc(cut, w.worker.Cut)
	defer stop()
	err := w.worker.Run(ctx)
	if errors.Is(err, bloom.ErrWorkerConflict) {
		return fmt.Errorf("worker %q: %w", w.name, err)
	}
	return err
}

// Claude looks at the claude program without spending anything.
func (w *Worker) Claude(ctx context.Context) (claude.Status, error) {
	return claude.Check(ctx, w.claude)
}

// grace turns "no time at all" into what the worker understands by it.
func grace(r config.Run) time.Duration {
	if r.DrainGrace == 0 {
		return -1
	}
	return r.DrainGrace
}

// addresses are those at which this machine can be found, at most 16.
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
