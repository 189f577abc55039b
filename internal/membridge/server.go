// Package membridge is the control plane: it keeps the agents, the projects and the primary node of
// each project, and makes agents synchronize a project's memory.
//
// The runtime works without it. Of the runtime it imports only the root package; they communicate
// over HTTP (see package mbclient).
package membridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
	"github.com/bloom-runtime/bloom/internal/membridge/store"
	"github.com/bloom-runtime/bloom/internal/share"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Defaults of Config.
const (
	DefaultJobTimeout   = 10 * time.Minute
	DefaultAgentTimeout = 30 * time.Second
	DefaultMaxWaiting   = 20_000
	DefaultKeptJobs     = 10_000
)

// minKey is the minimum length of a configured key.
const minKey = 16

// Config configures a control plane.
type Config struct {
	// DatabaseURL is a PostgreSQL URL. Empty: the SQLite file at DatabasePath.
	DatabaseURL  string
	DatabasePath string

	// AdminKey admits to every route, AgentKey only to an agent's own. Each is empty (no such key)
	// or has at least 16 characters.
	AdminKey string
	AgentKey string
	// RequireTokens refuses the agent key without the agent's own token, which binds the name that
	// it writes. It is off by default because agents of the earlier Node implementation have no
	// token.
	RequireTokens bool
	// SyncAgentKey sends AgentKey in calls to the URLs of agents without a token: agents of the
	// earlier implementation refuse commands without it. Anyone who can register an agent can then
	// read the key; use it only if all agents trust each other.
	SyncAgentKey bool
	// Development admits requests without a key while both keys are empty. Set it only when every
	// listener is loopback or a unix socket; each request is checked, too (see access.go).
	Development bool
	// Open, when set, reports whether requests from this machine need no key now: a runtime in the
	// same process works without keys until the first is created. As with Development, only for
	// listeners on this machine.
	Open func(context.Context) bool

	// RuntimeURL is the runtime's URL, which agents get with every registration and heartbeat.
	// Empty: unknown. With an unspecified host (http://0.0.0.0:5000) the runtime is on this
	// machine, and each agent gets the host by which it reached the control plane.
	RuntimeURL string
	Version    string

	// JobTimeout is how long an agent may take for a sync job before it fails; zero means
	// DefaultJobTimeout.
	JobTimeout time.Duration
	// AgentTimeout bounds a call to an agent's URL; zero means DefaultAgentTimeout.
	AgentTimeout time.Duration
	// DialPolicy refuses addresses behind agents' URLs. It is checked for each connection. Nil
	// means DefaultDialPolicy.
	DialPolicy func(netip.Addr) error
	// MaxWaiting bounds the heartbeats that wait for commands at the same time; further ones are
	// answered immediately. Zero means DefaultMaxWaiting.
	MaxWaiting int

	// Limits are rate limits; the zero value has none.
	Limits Limits
	// Known is called for every request of a caller with a valid key; it may be nil.
	Known func(*http.Request)
	// Proxies are the trusted proxies; none by default.
	Proxies guard.Proxies

	// Clock is for tests; nil means the store's own.
	Clock timing.Clock
	Log   *slog.Logger // nil means slog.Default()
}

// ConfigError is an error in a Config, for the operator.
type ConfigError struct{ error }

func (c *Config) finish() error {
	c.Version = cmp.Or(c.Version, "dev")
	c.JobTimeout = cmp.Or(c.JobTimeout, DefaultJobTimeout)
	c.AgentTimeout = cmp.Or(c.AgentTimeout, DefaultAgentTimeout)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, DefaultMaxWaiting)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Known == nil {
		c.Known = func(*http.Request) {}
	}
	if c.DialPolicy == nil {
		c.DialPolicy = DefaultDialPolicy
	}
	for name, key := range map[string]string{"MEMBRIDGE_ADMIN_KEY": c.AdminKey, "MEMBRIDGE_AGENT_KEY": c.AgentKey} {
		if key != "" && len(key) < minKey {
			return fmt.Errorf("%s is shorter than %d characters; generate one with `openssl rand -hex 32`", name, minKey)
		}
	}
	if c.SyncAgentKey && c.AgentKey == "" {
		return errors.New("--sync-agent-key requires an agent key: set MEMBRIDGE_AGENT_KEY")
	}
	if c.AdminKey != "" && c.AdminKey == c.AgentKey {
		return errors.New("MEMBRIDGE_AGENT_KEY must differ from MEMBRIDGE_ADMIN_KEY: agents would be admins")
	}
	if c.DatabaseURL == "" && c.DatabasePath == "" {
		return errors.New("membridge requires a database: a path for SQLite or a DATABASE_URL")
	}
	return nil
}

// Server is the control plane. Handler serves it, Run maintains it. All methods are safe for
// concurrent use.
type Server struct {
	cfg     Config
	store   registry.Store
	uptime  registry.Uptime
	auth    authenticator
	waiting *waiting
	caller  *http.Client
	metrics *metrics
	limits  limits
	bodies  *share.Shares // memory
	handler http.Handler
	mux     *guard.Mux[access]
	api     huma.API
	runtime atomic.Pointer[string] // the runtime's URL for agents

	quiesced context.Context // ends when no heartbeat may wait any more
	quiesce  context.CancelFunc
}

// Open opens the registry and prepares the routes. It does not listen: the caller serves Handler,
// calls Run, and calls Close at the end.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.finish(); err != nil {
		return nil, ConfigError{err}
	}
	st, err := store.Open(ctx, cfg.DatabaseURL, cfg.DatabasePath, cfg.Clock)
	if err != nil {
		return nil, err
	}
	before, err := st.MarkAlive(ctx)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	s := &Server{
		cfg: cfg, store: st, uptime: registry.Uptime{LastAlive: before, Started: st.Now()},
		auth: newAuthenticator(cfg), waiting: newWaiting(cfg.MaxWaiting), caller: newCaller(cfg), metrics: newMetrics(cfg.Version),
		bodies: share.New(bodiesOfAll, bodiesOfOne),
	}
	s.quiesced, s.quiesce = context.WithCancel(context.Background())
	s.SetRuntimeURL(cfg.RuntimeURL)
	s.metrics.watch(s)
	s.limits = newLimits(cfg, s.metrics)
	s.routes()
	return s, nil
}

// Mode is which callers the control plane admits.
type Mode string

// The modes.
const (
	ModeKeys        Mode = "keys"        // those with a key
	ModeDevelopment Mode = "development" // everyone on this machine, without a key
	ModeUnset       Mode = "unset"       // only agents with the agent key: no admin key is set
)

// Mode returns which callers the control plane admits.
func (s *Server) Mode() Mode {
	switch {
	case s.auth.hasAdmin:
		return ModeKeys
	case s.auth.development:
		return ModeDevelopment
	}
	return ModeUnset
}

// Handler returns the handler for every route. Its http.Server should set ReadHeaderTimeout; the
// handler removes the deadlines of waiting heartbeats.
func (s *Server) Handler() http.Handler { return s.handler }

// Policies returns the routes' policies by "METHOD /path": open, agent or admin.
func (s *Server) Policies() map[string]string {
	all := map[string]string{}
	for route, need := range s.mux.Policies() {
		all[route] = need.String()
	}
	return all
}

// OpenAPI returns the description served at /openapi.json.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

// Quiesce answers every waiting heartbeat immediately and lets none wait from then on. Register it
// with http.Server.RegisterOnShutdown: otherwise a graceful shutdown would last as long as the
// longest poll.
func (s *Server) Quiesce() { s.quiesce() }

// Close ends waiting requests and closes the registry. Call it after the HTTP server has stopped.
func (s *Server) Close() error {
	s.Quiesce()
	s.caller.CloseIdleConnections()
	return s.store.Close()
}
