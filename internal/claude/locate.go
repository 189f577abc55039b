package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/process"
)

// ErrNotFound means that there is no claude command line on this machine.
var ErrNotFound = errors.New("the claude command line was not found")

// Locate finds the claude binary: the one at path, or, when path is empty, the
// one on the PATH, else the one that scripts/install-claude.sh put beside this
// program. It returns an absolute path, or an error that matches
// ErrNotFound and says where it looked.
func Locate(path string) (string, error) {
	if path == "" {
		found, err := exec.LookPath("claude")
		if err != nil {
			found = beside()
		}
		if found == "" {
			return "", fmt.Errorf("%w on the PATH; install it with npm install -g @anthropic-ai/claude-code, or name it with --claude", ErrNotFound)
		}
		path = found
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(absolute)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w at %s", ErrNotFound, absolute)
	case err != nil:
		return "", err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%w: %s is not an executable file", ErrNotFound, absolute)
	}
	return absolute, nil
}

// beside is the claude in .tools of the source tree that this program was built in
// (bin/bloom) or lies in; empty when there is none.
func beside() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	for _, dir := range []string{filepath.Dir(self), filepath.Dir(filepath.Dir(self))} {
		found, err := filepath.Glob(filepath.Join(dir, ".tools/claude/node_modules/@anthropic-ai/claude-code-*/claude"))
		if err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// Status is what Check found out.
type Status struct {
	Path     string // absolute
	Version  string // as it prints it, for example "2.1.329 (Claude Code)"
	LoggedIn bool
	// AuthMethod says how, in claude's words ("api_key", "oauth_token",
	// "claude.ai", "none"); empty when claude did not say.
	AuthMethod string
	// Login says in a sentence what was found, or what to do.
	Login string
}

// Check finds claude, asks its version and whether somebody is logged in. It
// spends nothing: no model is asked. It fails when claude is missing (ErrNotFound), or
// is nothing that tasks can be run with (*Unusable).
func Check(ctx context.Context, c Config) (Status, error) {
	c = c.withDefaults()
	path, err := Locate(c.Path)
	if err != nil {
		return Status{}, err
	}
	status := Status{Path: path}
	if status.Version, err = identify(ctx, c, path); err != nil {
		return status, err
	}
	answer, _, err := ask(ctx, c, path, "auth", "status")
	if err != nil {
		return status, err
	}
	status.judgeLogin(c, answer)
	return status, nil
}

func (s *Status) judgeLogin(c Config, answer string) {
	var auth struct {
		LoggedIn   *bool  `json:"loggedIn"`
		AuthMethod string `json:"authMethod"`
	}
	if json.Unmarshal([]byte(answer), &auth) == nil && auth.LoggedIn != nil {
		s.LoggedIn, s.AuthMethod = *auth.LoggedIn, auth.AuthMethod
	} else {
		// An older claude has no such command; what it would read is looked at.
		s.LoggedIn = hasCredentials(c)
	}
	switch {
	case s.LoggedIn && s.AuthMethod != "":
		s.Login = "logged in (" + s.AuthMethod + ")"
	case s.LoggedIn:
		s.Login = "credentials are there"
	default:
		s.Login = "nobody is logged in: set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN for the worker, or run claude and log in as the worker's user"
	}
}

func hasCredentials(c Config) bool {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"} {
		if lookup(c.Environ, name) != "" {
			return true
		}
	}
	_, err := os.Stat(filepath.Join(c.configDir(), ".credentials.json"))
	return err == nil
}

// ask runs claude with the arguments and returns what it printed.
func ask(ctx context.Context, c Config, path string, args ...string) (string, process.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var stdout bytes.Buffer
	p, err := process.Start(process.Command{
		Path: path, Args: args, Env: c.environment(), Stdout: &stdout, Grace: c.Grace,
	})
	if err != nil {
		return "", process.Exit{}, fmt.Errorf("start %s: %w", path, err)
	}
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	exit, err := p.Wait()
	if ctx.Err() != nil && exit.Stopped {
		return "", exit, fmt.Errorf("%s %s did not answer in time", path, strings.Join(args, " "))
	}
	return stdout.String(), exit, err
}
