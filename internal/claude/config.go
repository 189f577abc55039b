package claude

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Defaults of Config.
const (
	DefaultPermissionMode = "acceptEdits"
	DefaultSilence        = 10 * time.Minute
	DefaultAfterResult    = 10 * time.Second
	DefaultGrace          = 5 * time.Second
	DefaultMaxRetries     = 4
	DefaultHintBytes      = 256 << 10
	DefaultMaxLine        = 64 << 20
)

// PermissionModes are the modes an operator may choose. "default" is the old
// name of "manual".
var PermissionModes = []string{"acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"}

// Config is what the operator of a worker decides. Nothing of it can be changed
// by a task.
type Config struct {
	// Path of the claude binary; empty means the one on the PATH. It is looked
	// up at every run, so that one installed later is found.
	Path string
	// Workdir is where claude works and where context hints are read. Required.
	Workdir string
	// WorkdirPerContext gives each context a folder of its own below Workdir.
	// The zero value lets all contexts share Workdir.
	WorkdirPerContext bool
	// StateDir keeps the session ids by context. Required.
	StateDir string
	// AgentsDir holds the operator's agent files, <slug>.md, used when claude
	// itself knows no such agent. Empty means there are none.
	AgentsDir string

	// PermissionMode is one of PermissionModes; empty means acceptEdits.
	PermissionMode string
	// AllowedTools need no permission, in the command line's own notation, for
	// example "Bash(git *)".
	AllowedTools []string
	// DisallowedTools are taken away; AskUserQuestion always is, nobody answers.
	DisallowedTools []string
	// Model, empty means claude's own choice.
	Model string
	// SettingSources limits whose settings count ("user", "project", "local").
	// Empty means all; use "user" for repositories that are not trusted.
	SettingSources []string
	// StrictMCPConfig ignores every MCP server that MCPConfig does not name.
	StrictMCPConfig bool
	// MCPConfig names MCP configuration files.
	MCPConfig []string

	// Environ is the worker's environment, from which the allow-list picks.
	// Nil means os.Environ().
	Environ []string
	// PassEnv names further variables that claude may see.
	PassEnv []string

	// Silence is how long claude may print nothing; 0 means DefaultSilence.
	Silence time.Duration
	// AfterResult is how long it may live on after its result line; 0 means
	// DefaultAfterResult.
	AfterResult time.Duration
	// Grace is the time between TERM and KILL; 0 means DefaultGrace.
	Grace time.Duration
	// MaxRetries bounds claude's own retries of the API; 0 means
	// DefaultMaxRetries.
	MaxRetries int
	// HintBytes bounds the context hints put before one prompt; 0 means
	// DefaultHintBytes.
	HintBytes int
	// MaxLine bounds what is kept of one line of output, in bytes; longer lines
	// are read and skipped. 0 means DefaultMaxLine.
	MaxLine int

	// Warm is how many claude processes are kept alive between tasks, one a
	// context and one spare. The zero value keeps none; below 0 it goes by the
	// machine's memory, see DefaultWarm. Linux only.
	Warm int

	// Transcripts keeps the transcripts of contexts where other workers find them; nil
	// leaves every context where it is.
	Transcripts Transcripts

	// Workspaces keeps the working folders of contexts that ask for it where other
	// workers find them; nil leaves every folder where it is.
	Workspaces Workspaces

	// Uploads takes the files that tasks ask for; nil takes none.
	Uploads Uploads
	// MaxFiles and MaxFileBytes bound what is uploaded of one run, and of one file; 0
	// uploads nothing.
	MaxFiles     int
	MaxFileBytes int64

	Clock bloom.Clock  // nil means the machine's
	Log   *slog.Logger // nil means slog.Default()
}

func (c Config) withDefaults() Config {
	c.PermissionMode = cmp.Or(c.PermissionMode, DefaultPermissionMode)
	c.Silence = cmp.Or(c.Silence, DefaultSilence)
	c.AfterResult = cmp.Or(c.AfterResult, DefaultAfterResult)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.MaxRetries = cmp.Or(c.MaxRetries, DefaultMaxRetries)
	c.HintBytes = cmp.Or(c.HintBytes, DefaultHintBytes)
	c.MaxLine = cmp.Or(c.MaxLine, DefaultMaxLine)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Clock == nil {
		c.Clock = bloom.SystemClock{}
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	return c
}

// Validate says everything that is wrong with the configuration.
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
		if ours(name) {
			errs = append(errs, fmt.Errorf("--pass-env: %s is the runtime's own and is never passed on", name))
		}
	}
	for name, value := range map[string]time.Duration{"silence": c.Silence, "after result": c.AfterResult, "grace": c.Grace} {
		if value < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", name))
		}
	}
	if min(c.MaxRetries, c.HintBytes, c.MaxLine) < 0 {
		errs = append(errs, errors.New("limits must not be negative"))
	}
	return errors.Join(errs...)
}

// Warnings says what an operator should know about a valid configuration.
func (c Config) Warnings() []string {
	var warnings []string
	if os.Geteuid() == 0 {
		warnings = append(warnings, "the worker runs as root: whatever claude does, it does as root; use an ordinary user")
	}
	if c.PermissionMode == "bypassPermissions" {
		warnings = append(warnings, "permission mode bypassPermissions: every task may run any command on this machine")
	}
	if runtime.GOOS != "linux" {
		warnings = append(warnings, "only on Linux can processes that left claude's process group be ended, and the worker's environment be hidden from tasks")
	}
	return warnings
}

// checkMCP looks whether the MCP configuration can be read. A named pipe would
// hang claude.
func (c Config) checkMCP() error {
	for _, file := range c.MCPConfig {
		if !filepath.IsAbs(file) {
			continue // the configuration itself
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

// configDir is where claude keeps its own settings, agents and sessions.
func (c Config) configDir() string {
	if dir := lookup(c.Environ, "CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(lookup(c.Environ, "HOME"), ".claude")
}
