// Package membridge is the control plane: it knows the agents, the projects,
// which node leads each project, and has agents move a project's memory.
//
// The runtime works in full without it. It imports nothing of the runtime but
// its vocabulary; they meet only over HTTP (see package mbclient).
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

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
	"github.com/bloom-runtime/bloom/internal/membridge/store"
)

// Defaults of Config.
const (
	DefaultJobTimeout   = 10 * time.Minute
	DefaultAgentTimeout = 30 * time.Second
	DefaultMaxWaiting   = 20_000
	DefaultKeptJobs     = 10_000
)

// minKey is the length below which a configured key is refused.
const minKey = 16

// Config is what a control plane needs to run.
type Config struct {
	// DatabaseURL is a PostgreSQL address. Empty: the SQLite file at DatabasePath.
	DatabaseURL  string
	DatabasePath string

	// AdminKey opens every route, AgentKey only what agents do for themselves.
	// Each is empty (no such key) or at least 16 characters long.
	AdminKey string
	AgentKey string
	// RequireTokens refuses the agent key without a token of the agent's own, which
	// binds the name that it writes. Agents of the earlier system have none, so that
	// it is off unless asked for.
	RequireTokens bool
	// SyncAgentKey sends AgentKey along when an agent without a token is called at
	// its URL: agents of the earlier system take no order without it. Whoever may
	// register an agent can then read the key; use it only where all agents are
	// trusted with each other's names.
	SyncAgentKey bool
	// Development lets requests in without a key while both keys are empty. The
	// caller sets it only when every listener is loopback or a unix socket; each
	// request is checked besides (see access.go).
	Development bool
	// Open, when set, reports whether requests of this machine need no key now, besides
	// those with one: a runtime in the same process goes on without keys until the first
	// is made. As with Development, only for listeners of this machine.
	Open func(context.Context) bool

	// RuntimeURL is where agents find the runtime; they are told with every
	// registration and heartbeat. Empty: they are not told. With an unspecified
	// host (http://0.0.0.0:5000) it is on this machine: each agent is told the
	// host by which it called us.
	RuntimeURL string
	Version    string

	// JobTimeout is how long an agent may take over a sync job before it is
	// called failed; zero means DefaultJobTimeout.
	JobTimeout time.Duration
	// AgentTimeout bounds a call to an agent's URL; zero means DefaultAgentTimeout.
	AgentTimeout time.Duration
	// DialPolicy refuses addresses that agents' URLs may lead to, checked when the
	// connection is made. Nil means DefaultDialPolicy.
	DialPolicy func(netip.Addr) error
	// MaxWaiting bounds the heartbeats that wait for orders at once; beyond it they
	// are answered at once. Zero means DefaultMaxWaiting.
	MaxWaiting int

	// Limits bound the requests of each caller; the zero value has none.
	Limits Limits
	// Proxies are those whose X-Forwarded-For names the caller; none by default.
	Proxies guard.Proxies

	// Clock is for tests; nil means the store's own.
	Clock bloom.Clock
	Log   *slog.Logger // nil means slog.Default()
}

// ConfigError is a mistake in a Config, for the person who wrote it.
type ConfigError struct{ error }

func (c *Config) finish() error {
	c.Version = cmp.Or(c.Version, "dev")
	c.JobTimeout = cmp.Or(c.JobTimeout, DefaultJobTimeout)
	c.AgentTimeout = cmp.Or(c.AgentTimeout, DefaultAgentTimeout)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, DefaultMaxWaiting)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.DialPolicy == nil {
		c.DialPolicy = DefaultDialPolicy
	}
	for name, key := range map[string]string{"MEMBRIDGE_ADMIN_KEY": c.AdminKey, "MEMBRIDGE_AGENT_KEY": c.AgentKey} {
		if key != "" && len(key) < minKey {
			return fmt.Errorf("%s is shorter than %d characters; make one with `openssl rand -hex 32`", name, minKey)
		}
	}
	if c.SyncAgentKey && c.AgentKey == "" {
		return errors.New("--sync-agent-key needs an agent key to send: set MEMBRIDGE_AGENT_KEY")
	}
	if c.AdminKey != "" && c.AdminKey == c.AgentKey {
		return errors.New("MEMBRIDGE_AGENT_KEY must differ from MEMBRIDGE_ADMIN_KEY: agents would be admins")
	}
	if c.DatabaseURL == "" && c.DatabasePath == "" {
		return errors.New("membridge needs a database: a path for SQLite or a DATABASE_URL")
	}
	return nil
}

// Server is the control plane. Handler serves it; the loops of Run look after it.
// All methods are safe for concurrent use.
type Server struct {
	cfg     Config
	store   registry.Store
	uptime  registry.Uptime
	gate    gate
	waiting *waiting
	caller  *http.Client
	metrics *metrics
	limits  limits
	handler http.Handler
	mux     *guard.Mux[access]
	api     huma.API
	runtime atomic.Pointer[string] // where agents find the runtime

	calm  context.Context // ends when no request may wait any more
	quiet context.CancelFunc
}

// Open opens the registry and prepares the routes. It listens nowhere: the
// caller serves Handler, runs Run, and ends with Close.
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
		gate: newGate(cfg), waiting: newWaiting(cfg.MaxWaiting), caller: newCaller(cfg), metrics: newMetrics(),
	}
	s.calm, s.quiet = context.WithCancel(context.Background())
	s.SetRuntimeURL(cfg.RuntimeURL)
	s.metrics.watch(s)
	s.limits = newLimits(cfg, s.metrics)
	s.routes()
	return s, nil
}

// Mode is whom the control plane answers.
type Mode string

// The modes.
const (
	ModeKeys        Mode = "keys"        // those with a key
	ModeDevelopment Mode = "development" // everybody on this machine, without a key
	ModeUnset       Mode = "unset"       // nobody but agents with the agent key: no admin key is set
)

// Mode tells whom the control plane answers.
func (s *Server) Mode() Mode {
	switch {
	case s.gate.hasAdmin:
		return ModeKeys
	case s.gate.development:
		return ModeDevelopment
	}
	return ModeUnset
}

// Handler serves every route. An http.Server in front of it should set
// ReadHeaderTimeout; deadlines of waiting heartbeats are lifted by the handler.
func (s *Server) Handler() http.Handler { return s.handler }

// Policies are the routes' policies, by "METHOD /path": open, agent or admin.
func (s *Server) Policies() map[string]string {
	all := map[string]string{}
	for route, need := range s.mux.Policies() {
		all[route] = need.String()
	}
	return all
}

// OpenAPI is the description served at /openapi.json.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

// Quiesce answers every waiting heartbeat at once, and lets none wait from now
// on. Register it with http.Server.RegisterOnShutdown: a graceful shutdown would
// otherwise last as long as the longest poll.
func (s *Server) Quiesce() { s.quiet() }

// Close ends waiting requests and closes the registry. Call it after the HTTP
// server has stopped.
func (s *Server) Close() error {
	s.Quiesce()
	s.caller.CloseIdleConnections()
	return s.store.Close()
}
