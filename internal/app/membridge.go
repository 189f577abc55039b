package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/front"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

// MembridgeFile is the control plane's database in the data folder.
const MembridgeFile = "membridge.db"

// controlPlane lets the runtime use membridge's client: both know only their
// own words for it.
type controlPlane struct {
	client  *mbclient.Client
	log     *slog.Logger
	changed atomic.Pointer[func()]
	skipped atomic.Int64 // entries of the last list that were no agents
	// chosen tells that somebody said where membridge is. Else it is looked for at
	// the default address, and that none answers there is nobody's trouble.
	chosen atomic.Bool
	first  string // the address at the start
}

func newControlPlane(cfg config.Server, log *slog.Logger) (*controlPlane, error) {
	c, err := mbclient.New(mbclient.Options{URL: cfg.MembridgeServerURL, Key: string(cfg.MembridgeAdminKey), Timeout: cfg.BridgeTimeout,
		AddressPolicy: membridge.DefaultDialPolicy, KeyName: "MEMBRIDGE_ADMIN_KEY, or the key saved in the settings, which wins over it"})
	if err != nil {
		return nil, fmt.Errorf("membridge's address: %w", err)
	}
	p := &controlPlane{client: c, log: log, first: cfg.MembridgeServerURL}
	p.chosen.Store(cfg.MembridgeChosen)
	return p, nil
}

// unasked reports whether a failure is only that of an address that nobody gave,
// where none has answered so far.
func (c *controlPlane) unasked() bool { return !c.chosen.Load() && c.client.State().LastSuccess == nil }

// Health asks membridge how it is.
func (c *controlPlane) Health(ctx context.Context) (json.RawMessage, error) {
	return c.client.Health(ctx)
}

// Check asks membridge for something that needs the admin key.
func (c *controlPlane) Check(ctx context.Context) error {
	if err := c.client.Check(ctx); err != nil && !c.unasked() {
		return err
	}
	return nil
}

// State is what the client has lived through.
func (c *controlPlane) State() dispatch.MembridgeState {
	if c.unasked() {
		return dispatch.MembridgeState{}
	}
	return dispatch.MembridgeState(c.client.State())
}

// Configure replaces address and key. What cannot be an address was refused
// when it was saved; if one is there all the same, calls go on as before.
func (c *controlPlane) Configure(address, key string) {
	if err := c.client.Configure(address, key); err != nil {
		c.log.Error("membridge's saved address cannot be used", "error", err)
		return
	}
	if address != c.first || key != "" {
		c.chosen.Store(true)
	}
	if f := c.changed.Load(); f != nil {
		(*f)()
	}
}

// onChange has f called whenever another membridge, or another key to it, is
// configured.
func (c *controlPlane) onChange(f func()) { c.changed.Store(&f) }

// ReadAgents lists the agents for the worker sync. That entries are none is said
// when it begins and when it ends.
func (c *controlPlane) ReadAgents(ctx context.Context) ([]maintenance.Agent, error) {
	list, err := c.client.Agents(ctx)
	if err != nil && c.unasked() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state := c.client.State()
	switch before := c.skipped.Swap(int64(state.SkippedAgents)); {
	case state.SkippedAgents > 0 && before == 0:
		c.log.Warn("membridge lists agents that are none; they are passed over", "agents", state.SkippedAgents, "first", state.SkippedWhy)
	case state.SkippedAgents == 0 && before > 0:
		c.log.Info("every agent that membridge lists is one again")
	}
	agents := make([]maintenance.Agent, len(list))
	for i, a := range list {
		agents[i] = maintenance.Agent{HeartbeatAt: int64(a.HeartbeatAt), Drain: a.Drain, WorkerReport: bloom.WorkerReport{
			Name: a.Name, URL: a.URL, Status: a.Status, Capabilities: &a.Capabilities, IPAddrs: a.IPAddrs, ObsCount: bloom.ObsCount(a.ObsCount),
			PostedAt: int64(max(a.PostedAt, a.RegisteredAt)), DBSHA: a.DBSHA, AgentVersion: a.AgentVersion, OSInfo: a.OSInfo, InstallMethod: a.InstallMethod,
		}}
	}
	return agents, nil
}

// Do passes a request of the proxy's on.
func (c *controlPlane) Do(ctx context.Context, method, path string, body json.RawMessage) (int, json.RawMessage, error) {
	return c.client.Do(ctx, method, path, body)
}

// MembridgeConfig is what a control plane needs.
type MembridgeConfig struct {
	config.Membridge
	DataDir     string
	DatabaseURL string
	AdminKey    string
	RuntimeURL  string // told to agents; may be empty
	// Open reports whether requests of this machine need no key now; nil never.
	Open func(context.Context) bool
	// ListenFlag is how the person who started it says where it listens.
	ListenFlag string
}

// Membridge is the control plane, open and ready to run.
type Membridge struct {
	server   *membridge.Server
	http     *http.Server
	listener net.Listener
}

// OpenMembridge builds the control plane and takes its port.
func OpenMembridge(ctx context.Context, cfg MembridgeConfig, b Build) (*Membridge, error) {
	l, err := listen(ctx, front.SocketMembridge, cfg.MembridgeListen, cfg.ListenFlag+" 127.0.0.1:8001, or MEMBRIDGE_PORT")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("data folder: %w", err), l.Close())
	}
	server, err := membridge.Open(ctx, membridge.Config{
		DatabaseURL: cfg.DatabaseURL, DatabasePath: filepath.Join(cfg.DataDir, MembridgeFile),
		AdminKey: cfg.AdminKey, AgentKey: string(cfg.AgentKey), RequireTokens: cfg.AgentTokens == config.TokensRequired,
		SyncAgentKey: cfg.SyncAgentKey, Development: isLoopback(l.Addr()), Open: cfg.Open,
		RuntimeURL: cfg.RuntimeURL, Version: b.Version, Log: b.Logger,
	})
	if misuse := (membridge.ConfigError{}); errors.As(err, &misuse) {
		return nil, errors.Join(Misuse{misuse}, l.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("membridge: %w", err), l.Close())
	}
	m := &Membridge{server: server, listener: l, http: httpServer(b.Logger)}
	m.http.Handler = front.EndConnection(server.Handler())
	m.http.RegisterOnShutdown(server.Quiesce)
	return m, nil
}

// URL is how this machine reaches it.
func (m *Membridge) URL() string { return localURL("http", m.listener.Addr()) }

// Mode tells whom it answers.
func (m *Membridge) Mode() membridge.Mode { return m.server.Mode() }

// Run serves until ctx ends; the end of cut ends what is under way.
func (m *Membridge) Run(ctx, cut context.Context) error {
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	looped := make(chan error, 1)
	go func() { looped <- m.server.Run(background) }()
	served := make(chan error, 1)
	go func() { served <- m.http.Serve(front.Strict(m.listener)) }()
	front.Tell(front.Ready)
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		wait, done := context.WithTimeout(cut, membridgeGrace)
		if m.http.Shutdown(wait) != nil {
			err = m.http.Close()
		}
		done()
	}
	stopBackground()
	return errors.Join(err, <-looped)
}

// Close lets go of everything; after Run or instead of it.
func (m *Membridge) Close() error {
	err := m.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, m.server.Close())
}
