package claude

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/timing"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Defaults of Config.
const (
	DefaultPermissionMode = "acceptEdits"
	DefaultSilence        = 10 * time.Minute
	DefaultBackground     = 2 * time.Minute
	DefaultAfterResult    = 10 * time.Second
	DefaultGrace          = 5 * time.Second
	DefaultUploadGrace    = 10 * time.Second
	DefaultMaxRetries     = 4
	DefaultHintBytes      = 256 << 10
	DefaultMaxLine        = 64 << 20
)

// PermissionModes are the modes an operator may choose. "default" is the old
// name of "manual".
var PermissionModes = []string{"acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"}

// Config is the configuration of a worker's operator. Tasks cannot change it.
type Config struct {
	// Path of the claude binary; empty means the one on the PATH. It is resolved at every
	// run, so that a worker finds one that was installed later.
	Path string
	// Workdir is where claude works and where context hints are read. Required.
	Workdir string
	// WorkdirPerContext gives each context a folder of its own below Workdir; otherwise all
	// contexts share Workdir.
	WorkdirPerContext bool
	// OnlyContexts means that Workdir is the worker's own and holds only the folders of contexts:
	// what claude would read there for all of them is set aside (see inherited).
	OnlyContexts bool
	// StateDir stores the session ids by context. Required.
	StateDir string
	// AgentsDir holds the operator's agent files, <slug>.md, which are used for agents that
	// claude itself does not know. It may be empty.
	AgentsDir string

	// PermissionMode is one of PermissionModes; empty means acceptEdits.
	PermissionMode string
	// AllowedTools need no permission. They are in claude's notation, for example
	// "Bash(git *)". They cannot allow what toolRules denies.
	AllowedTools []string
	// DisallowedTools cannot be used, in addition to those that toolRules denies.
	DisallowedTools []string
	// Model is the default model; empty means claude's default.
	Model string
	// SettingSources are the settings that claude reads ("user", "project", "local").
	// Empty means all; use "user" for repositories that are not trusted.
	SettingSources []string
	// StrictMCPConfig ignores every MCP server that is not in MCPConfig.
	StrictMCPConfig bool
	// MCPConfig lists MCP configuration files, or inline JSON.
	MCPConfig []string

	// Environ is the worker's environment, of which claude gets the variables on an
	// allow-list. Nil means os.Environ().
	Environ []string
	// PassEnv adds variables to the allow-list.
	PassEnv []string

	// Silence is how long claude may print nothing; 0 means DefaultSilence.
	Silence time.Duration
	// Background is how long commands in the background may print nothing after claude's answer,
	// if it waits only for them, as for a server that it started; 0 means DefaultBackground.
	Background time.Duration
	// AfterResult is how long claude may run after its result line; 0 means
	// DefaultAfterResult.
	AfterResult time.Duration
	// Grace is the time between TERM and KILL; 0 means DefaultGrace.
	Grace time.Duration
	// UploadGrace is how long the uploads of a task that has ended may continue when the
	// task is cancelled or the worker stops; 0 means DefaultUploadGrace.
	UploadGrace time.Duration
	// MaxRetries is how often claude retries an API request; 0 means
	// DefaultMaxRetries.
	MaxRetries int
	// HintBytes is the maximum size of the context hints in one prompt; 0 means
	// DefaultHintBytes.
	HintBytes int
	// MaxLine is the maximum length of a line of output, in bytes. Longer lines are
	// skipped. 0 means DefaultMaxLine.
	MaxLine int

	// Warm is how many claude processes are kept alive between tasks: one for each
	// context, and a spare one. 0 keeps none; a negative value means DefaultWarm of the
	// machine's memory. Linux only.
	Warm int

	// Transcripts stores the transcripts of contexts for other workers. With nil, a
	// context's session stays on the worker that began it.
	Transcripts Transcripts

	// Workspaces stores the working folders of contexts for other workers, if their tasks
	// ask for it. With nil, the folders stay on this worker.
	Workspaces Workspaces

	// AwaitOutcome waits until the outcome of an earlier run, given by its lease, was
	// accepted (see Runner.Accepted) or cannot be accepted any more. With nil, no outcome is
	// ever waited for.
	AwaitOutcome func(ctx context.Context, leaseID string) error

	// Attachments opens the files that tasks were posted with. With nil, such tasks fail.
	Attachments Attachments

	// Approvals asks people about calls, for ApprovalGrace while claude waits; then the run is
	// suspended. With nil, nobody is asked. AskRules are claude's permission rules about which people
	// are asked in all tasks.
	Approvals     Approvals
	ApprovalGrace time.Duration
	AskRules      []string

	// Uploads uploads the files that tasks ask for. With nil, none are uploaded.
	Uploads Uploads
	// MaxFiles is the maximum number of files uploaded by a run, and MaxFileBytes the
	// maximum size of a file; 0 uploads nothing.
	MaxFiles     int
	MaxFileBytes int64

	project string // CLAUDE_PROJECT_ID, for hooks: the agent of the task

	Clock timing.Clock // nil means the system clock
	Log   *slog.Logger // nil means slog.Default()
}

func (c Config) withDefaults() Config {
	c.PermissionMode = cmp.Or(c.PermissionMode, DefaultPermissionMode)
	c.Silence = cmp.Or(c.Silence, DefaultSilence)
	c.Background = cmp.Or(c.Background, DefaultBackground)
	c.AfterResult = cmp.Or(c.AfterResult, DefaultAfterResult)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.UploadGrace = cmp.Or(c.UploadGrace, DefaultUploadGrace)
	c.MaxRetries = cmp.Or(c.MaxRetries, DefaultMaxRetries)
	c.HintBytes = cmp.Or(c.HintBytes, DefaultHintBytes)
	c.MaxLine = cmp.Or(c.MaxLine, DefaultMaxLine)
	c.ApprovalGrace = cmp.Or(c.ApprovalGrace, DefaultApprovalGrace)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Clock == nil {
		c.Clock = timing.System{}
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	return c
}

// Validate returns all errors in the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Workdir == "" {
		errs = append(errs, errors.New("workdir: must be set"))
	}
	if c.StateDir == "" {
		errs = append(errs, errors.New("state dir: must be set"))
	}
	if c.PermissionMode != "" && !slices.Contains(PermissionModes, c.PermissionMode) {
		errs = append(errs, fmt.Errorf("permission mode: %q is not one of %s", c.PermissionMode, strings.Join(PermissionModes, ", ")))
	}
	for _, source := range c.SettingSources {
		if !slices.Contains([]string{"user", "project", "local"}, source) {
			errs = append(errs, fmt.Errorf("setting sources: %q is not user, project or local", source))
		}
	}
	for _, name := range c.PassEnv {
		if denied(name) {
			errs = append(errs, fmt.Errorf("--pass-env: %s belongs to the runtime and is never passed on", name))
		}
	}
	for name, value := range map[string]time.Duration{"silence": c.Silence, "background": c.Background, "after result": c.AfterResult, "grace": c.Grace, "upload grace": c.UploadGrace} {
		if value < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", name))
		}
	}
	if min(c.MaxRetries, c.HintBytes, c.MaxLine) < 0 {
		errs = append(errs, errors.New("limits must not be negative"))
	}
	return errors.Join(errs...)
}

// Warnings returns the risks of a valid configuration.
func (c Config) Warnings() []string {
	var warnings []string
	if os.Geteuid() == 0 {
		warnings = append(warnings, "the worker runs as root: whatever claude does, it does as root; use an ordinary user")
	}
	if c.PermissionMode == "bypassPermissions" {
		warnings = append(warnings, "permission mode bypassPermissions: every task may run any command on this machine")
	}
	for _, tool := range c.AllowedTools {
		if rule := toolRules[toolName(tool)]; rule.denied {
			warnings = append(warnings, fmt.Sprintf("allowed tool %s has no effect, because no task may use it: %s", tool, rule.why))
		}
	}
	if runtime.GOOS != "linux" {
		warnings = append(warnings, "this system is not Linux: processes that leave claude's process group are not stopped, and tasks may read the worker's environment")
	}
	return warnings
}

// checkMCP checks that the MCP configuration files are regular files. claude would block
// on a named pipe.
func (c Config) checkMCP() error {
	for _, file := range c.MCPConfig {
		if !filepath.IsAbs(file) {
			continue // inline configuration
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: %w", file, workspace.ErrNotRegular)
		}
	}
	return nil
}

// configDir returns the folder of claude's own settings, agents and sessions.
func (c Config) configDir() string {
	if dir := lookup(c.Environ, "CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(lookup(c.Environ, "HOME"), ".claude")
}
