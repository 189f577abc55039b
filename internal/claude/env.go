package claude

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// allowedEnv lists the variables that claude gets without PassEnv. A name that ends in *
// is a prefix.
var allowedEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TERM", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"XDG_*", "ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR",
	"DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
}

// deniedEnv lists the variables that are never passed on, even if PassEnv has them.
var deniedEnv = []string{"RUNTIME_*", "MEMBRIDGE_*", "MINIO_*", "DATABASE_URL", "BLOOM_*", "CLAUDECODE"}

func matchesName(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return name == pattern || wild && strings.HasPrefix(name, prefix)
	})
}

func denied(name string) bool { return matchesName(deniedEnv, name) }

func lookup(environ []string, name string) string {
	for _, pair := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// waitForSubagents is how long, in milliseconds, a process for one turn waits for subagents in the
// background. Without it that is ten minutes; the task's time limit is enough.
const waitForSubagents = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"

// environment returns claude's environment: the allow-list, PassEnv, and what a worker
// always sets.
func (c Config) environment() []string {
	var env []string
	for _, pair := range c.Environ {
		name, _, _ := strings.Cut(pair, "=")
		if !denied(name) && (matchesName(allowedEnv, name) || slices.Contains(c.PassEnv, name)) {
			env = append(env, pair)
		}
	}
	if c.project != "" && lookup(env, "CLAUDE_PROJECT_ID") == "" {
		env = append(env, "CLAUDE_PROJECT_ID="+c.project)
	}
	env = append(env, "CLAUDE_CODE_MAX_RETRIES="+strconv.Itoa(c.MaxRetries))
	if lookup(env, waitForSubagents) == "" { // unless PassEnv has it
		env = append(env, waitForSubagents+"="+strconv.Itoa(bloom.MaxTimeoutSec*1000))
	}
	// A worker's claude must not replace itself between two tasks.
	return append(env, "DISABLE_AUTOUPDATER=1")
}

// firstExtraFile is the file descriptor of a process's first extra file.
const firstExtraFile = 3

// descriptorOf names the variables with which claude reads a credential from a file descriptor.
// Every command that a task runs inherits the environment, and can read it in /proc.
var descriptorOf = map[string]string{ //nolint:gosec // names, not values
	"ANTHROPIC_API_KEY":       "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
	"CLAUDE_CODE_OAUTH_TOKEN": "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
}

// runEnvironment returns the environment of a process that runs tasks, and the files with the
// credentials that are not in it, unless PassEnv names them. The caller closes the files.
func (c Config) runEnvironment() (env []string, files []*os.File, err error) {
	for _, pair := range c.environment() {
		name, value, _ := strings.Cut(pair, "=")
		descriptor := descriptorOf[name]
		if descriptor == "" || value == "" || slices.Contains(c.PassEnv, name) {
			env = append(env, pair)
			continue
		}
		file, err := filled(value)
		if err != nil {
			closeFiles(files)
			return nil, nil, err
		}
		env = append(env, descriptor+"="+strconv.Itoa(firstExtraFile+len(files)))
		files = append(files, file)
	}
	return env, files, nil
}

// filled returns the end of a pipe from which the text is read once.
func filled(text string) (*os.File, error) {
	const size = 4096 // every pipe has room for it
	if len(text) > size {
		return nil, fmt.Errorf("a credential of %d bytes is too long, at most %d", len(text), size)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.WriteString(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // nothing was written through it
	}
}

type traceKey struct{}

// WithTraceParent makes claude continue a trace. parent, in the format of the traceparent
// header, becomes TRACEPARENT in its environment. It has no effect on processes that were
// kept alive or started ahead (Config.Warm).
func WithTraceParent(ctx context.Context, parent string) context.Context {
	return context.WithValue(ctx, traceKey{}, parent)
}

func traceEnv(ctx context.Context) []string {
	if parent, _ := ctx.Value(traceKey{}).(string); parent != "" {
		return []string{"TRACEPARENT=" + parent}
	}
	return nil
}
