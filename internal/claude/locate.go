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

// ErrNotFound means that claude is not installed on this machine.
var ErrNotFound = errors.New("the claude command line was not found")

// Locate finds the claude binary: the one at path or, if path is empty, the one on the
// PATH, else the one that scripts/install-claude.sh installed next to this program. It
// returns an absolute path, or an error that matches ErrNotFound.
func Locate(path string) (string, error) {
	if path == "" {
		found, err := exec.LookPath("claude")
		if err != nil {
			found = bundled()
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

// bundled returns the claude in .tools of the source tree that this program was built in
// (bin/bloom) or lies in, "" if there is none.
func bundled() string {
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

// Status is the result of Check.
type Status struct {
	Path     string // absolute
	Version  string // as printed, for example "2.1.329 (Claude Code)"
	LoggedIn bool
	// AuthMethod is claude's name of the method ("api_key", "oauth_token", "claude.ai",
	// "none"); empty for versions that do not report it.
	AuthMethod string
	// Login describes the login, or says what to do.
	Login string
}

// Check finds claude, and gets its version and login. It sends no request to the model. It
// fails if claude is missing (ErrNotFound) or cannot run tasks (*Unusable).
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
	answer, _, err := runClaude(ctx, c, path, "auth", "status")
	if err != nil {
		return status, err
	}
	status.setLogin(c, answer)
	return status, nil
}

func (s *Status) setLogin(c Config, answer string) {
	var auth struct {
		LoggedIn   *bool  `json:"loggedIn"`
		AuthMethod string `json:"authMethod"`
	}
	if json.Unmarshal([]byte(answer), &auth) == nil && auth.LoggedIn != nil {
		s.LoggedIn, s.AuthMethod = *auth.LoggedIn, auth.AuthMethod
	} else {
		// Older versions have no such command: check for credentials.
		s.LoggedIn = loginOf(c) != "none"
	}
	switch {
	case s.LoggedIn && s.AuthMethod != "":
		s.Login = "logged in (" + s.AuthMethod + ")"
	case s.LoggedIn:
		s.Login = "credentials are configured"
	default:
		s.Login = "nobody is logged in: set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN for the worker, or run claude and log in as the worker's user"
	}
}

// loginOf returns which credentials are configured for claude, as bloom.WorkerSetup names them.
func loginOf(c Config) string {
	for _, of := range [][2]string{{"ANTHROPIC_API_KEY", "api_key"}, {"ANTHROPIC_AUTH_TOKEN", "token"}, {"CLAUDE_CODE_OAUTH_TOKEN", "token"}} {
		if lookup(c.Environ, of[0]) != "" {
			return of[1]
		}
	}
	if _, err := os.Stat(filepath.Join(c.configDir(), ".credentials.json")); err == nil {
		return "account"
	}
	return "none"
}

// runClaude runs claude with the arguments and returns its output.
func runClaude(ctx context.Context, c Config, path string, args ...string) (string, process.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stdout := limitedBuffer{full: cancel}
	p, err := process.Start(process.Command{
		Path: path, Args: args, Env: c.environment(), Stdout: &stdout, Grace: c.Grace,
	})
	if err != nil {
		return "", process.Exit{}, err
	}
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	exit, err := p.Wait()
	switch {
	case stdout.truncated:
		return "", exit, fmt.Errorf("%s %s printed more than %d bytes", path, strings.Join(args, " "), maxAnswer)
	case ctx.Err() != nil && exit.Stopped:
		return "", exit, fmt.Errorf("%s %s did not answer in time", path, strings.Join(args, " "))
	}
	return stdout.text.String(), exit, err
}

// maxAnswer is the largest output, in bytes, that runClaude accepts.
const maxAnswer = 1 << 20

// limitedBuffer keeps maxAnswer bytes. It calls full when there are more.
type limitedBuffer struct {
	text      bytes.Buffer
	full      func()
	truncated bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxAnswer {
		b.truncated = true
		b.full()
		return len(p), nil
	}
	return b.text.Write(p)
}
