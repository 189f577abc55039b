package claude

import (
	"context"
	"slices"
	"strconv"
	"strings"
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
	if !slices.Contains(c.PassEnv, "CLAUDE_CODE_DISABLE_AUTO_MEMORY") {
		// claude's memory belongs to a folder: one context's words would reach the next.
		env = append(env, "CLAUDE_CODE_DISABLE_AUTO_MEMORY=1")
	}
	env = append(env, "CLAUDE_CODE_MAX_RETRIES="+strconv.Itoa(c.MaxRetries))
	// A worker's claude must not replace itself between two tasks.
	return append(env, "DISABLE_AUTOUPDATER=1")
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
