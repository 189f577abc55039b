package claude

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// Runner runs tasks with the claude command line. It may run many at once.
type Runner struct {
	id       string // of this process
	config   Config
	sessions *sessions
	versions fileCache // output of claude --version
	help     fileCache // output of claude --help
	pool     *pool
	agent    atomic.Value // string: the agent of the last task, for the spare process
	tools    *toolPolicy
	removing chan struct{} // holds a token while the folder of a forgotten context is removed
}

// New makes a runner. It creates the working folder and the state folder. It does not
// check that claude is installed; Usable and Run do.
func New(config Config) (*Runner, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.MCPConfig = slices.Clone(config.MCPConfig)
	var err error
	for i, file := range config.MCPConfig {
		if strings.HasPrefix(strings.TrimSpace(file), "{") {
			continue // inline configuration
		}
		// claude would resolve a relative path from the working folder, which tasks can write.
		if config.MCPConfig[i], err = filepath.Abs(file); err != nil {
			return nil, err
		}
	}
	if config.Workdir, err = filepath.Abs(config.Workdir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(config.Workdir, 0o755); err != nil {
		return nil, fmt.Errorf("working folder: %w", err)
	}
	// claude resolves symbolic links before it derives a session's path from the folder.
	if config.Workdir, err = filepath.EvalSymlinks(config.Workdir); err != nil {
		return nil, fmt.Errorf("working folder: %w", err)
	}
	sessions, err := openSessions(config.StateDir)
	if err != nil {
		return nil, err
	}
	for _, warning := range config.Warnings() {
		config.Log.Warn(warning)
	}
	return &Runner{id: rand.Text(), config: config, sessions: sessions, versions: fileCache{failureTTL: unusableFor}, pool: newPool(config.Warm, config.Log), tools: &toolPolicy{config: config, unknown: map[string]bool{}}, removing: make(chan struct{}, 1)}, nil
}

// Close stops the processes that are kept for later tasks. It does not stop running
// tasks.
func (r *Runner) Close() { r.pool.close() }

// Run runs one task and returns what to report; the caller fills in the LeaseID. It
// calls emit for every event, one at a time; the data marshals to JSON. When ctx ends it
// stops the work, and the cause of ctx (attempt.ErrCancelled, ErrLeaseGone, ErrDraining)
// decides the outcome. Run returns only when no process of the run is left.
func (r *Runner) Run(ctx context.Context, task bloom.Task, emit func(typ string, data any)) attempt.Run {
	started := r.config.Clock.Now()
	run := &taskRun{runner: r, config: r.config, task: task, emit: &emitter{emit: emit}}
	v := run.do(ctx)
	run.meterMu.Lock()
	metrics := run.meter.metrics((r.config.Clock.Now().Sub(started) - run.limit.spent()).Milliseconds())
	run.meterMu.Unlock()
	metrics.Warnings = run.emit.outcomeWarnings()
	if v.suspend != nil {
		v.suspend.Metrics = metrics
		return attempt.Run{Suspend: v.suspend}
	}
	run.emit.send(EventResult, data{"ok": v.ok, "error_class": v.class, "message": v.message, "metrics": metrics})
	if v.release {
		return attempt.Run{
			Completion: v.completion(metrics),
			Release:    &bloom.ReleaseSpec{Reason: storable.Cut(v.message, 1024), NotBefore: v.notBefore},
			Refused:    v.refused,
		}
	}
	c := v.completion(metrics)
	c.Transcript, c.Workspace = run.transcript, run.workspaceUpdate
	return attempt.Run{Completion: c, Refused: v.refused}
}

func (v verdict) completion(metrics bloom.Metrics) bloom.Completion {
	c := bloom.Completion{Status: bloom.OutcomeSuccess, Metrics: metrics, ArtifactType: bloom.DefaultArtifactType, ArtifactTags: []string{}}
	output := v.output
	if v.ok || output != "" {
		c.Output = &output
	}
	if !v.ok {
		message := v.message
		c.Status, c.ErrorMessage, c.ErrorClass, c.Retryable = bloom.OutcomeError, &message, v.class, v.retryable
	}
	return c
}

// Prepare starts the spare process in the background, if the configuration keeps
// processes alive. The spare process has the options of a task without special requests,
// of the last task's agent, and serves the first such task of a new context. A runner that was
// prepared or has run tasks must be closed.
func (r *Runner) Prepare() {
	plain := &coldSession{config: r.config, tools: r.tools, workdir: r.config.spareWorkdir()}
	plain.config.project, _ = r.agent.Load().(string)
	r.pool.prepare(func(ctx context.Context) (_ string, err error) {
		if plain.path, err = r.usable(ctx); err != nil {
			return "", err
		}
		if _, err := r.config.setInheritedAside(); err != nil {
			return "", err
		}
		plain.args = r.baseArgs(ctx, plain.path)
		return plain.startKey(ctx)
	}, func(key string) (*warmProcess, error) {
		if !r.config.WorkdirPerContext {
			return startProcess(plain.config, plain.path, plain.turnArgs(), plain.workdir, key)
		}
		return startUnclaimed(plain.config, plain.path, plain.turnArgs(), key)
	})
}
