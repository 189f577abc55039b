package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	secure, err := front.Client(cfg.MembridgeCAFile, "", "", log)
	if err != nil {
		return nil, fmt.Errorf("--membridge-ca-file: %w", err)
	}
	c, err := mbclient.New(mbclient.Options{URL: cfg.MembridgeServerURL, Key: string(cfg.MembridgeAdminKey), Timeout: cfg.BridgeTimeout, TLS: secure,
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
	config.Rates
	config.Connections
	DataDir     string
	DatabaseURL string
	AdminKey    string
	RuntimeURL  string // told to agents; may be empty
	// Open reports whether requests of this machine need no key now; nil never.
	Open func(context.Context) bool
	// Private opens a listener of plain HTTP beside one of TLS, for the server of the
	// same process: the certificate is for a name that others call it by.
	Private bool
	// ListenFlag is how the person who started it says where it listens.
	ListenFlag string
}

// Membridge is the control plane, open and ready to run.
type Membridge struct {
	server   *membridge.Server
	front    *front.Front
	listener net.Listener
	private  net.Listener // nil without one
}

// OpenMembridge builds the control plane and takes its port. Before Run only questions
// after its health are answered, with 503; the others wait.
func OpenMembridge(ctx context.Context, cfg MembridgeConfig, b Build) (_ *Membridge, err error) {
	m := &Membridge{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	proxies, err := cfg.Proxies()
	if err != nil {
		return nil, Misuse{err}
	}
	if m.listener, err = listen(ctx, front.SocketMembridge, cfg.MembridgeListen, cfg.ListenFlag+" 127.0.0.1:8001, or MEMBRIDGE_PORT"); err != nil {
		return nil, err
	}
	if err := m.openFront(ctx, cfg, b); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	m.server, err = membridge.Open(ctx, membridge.Config{
		DatabaseURL: cfg.DatabaseURL, DatabasePath: filepath.Join(cfg.DataDir, MembridgeFile),
		AdminKey: cfg.AdminKey, AgentKey: string(cfg.AgentKey), RequireTokens: cfg.AgentTokens == config.TokensRequired,
		SyncAgentKey: cfg.SyncAgentKey, Development: isLoopback(m.listener.Addr()), Open: cfg.Open,
		Limits:  membridge.Limits{Address: cfg.RateAddress, Admin: cfg.RateKey, Agent: cfg.RateWorker},
		Proxies: proxies, RuntimeURL: cfg.RuntimeURL, Version: b.Version, Log: b.Logger,
	})
	if misuse := (membridge.ConfigError{}); errors.As(err, &misuse) {
		return nil, Misuse{misuse}
	}
	if err != nil {
		return nil, fmt.Errorf("membridge: %w", err)
	}
	return m, nil
}

// openFront begins to answer.
func (m *Membridge) openFront(ctx context.Context, cfg MembridgeConfig, b Build) (err error) {
	c := front.Config{
		Listener: m.listener, HTTP: httpServer(b.Logger), Logger: b.Logger, MaxConnections: cfg.MaxConnections,
		TLS:  front.Files{Certificate: cfg.TLSCert, Key: cfg.TLSKey, ClientCA: ""},
		ACME: front.ACME{}, Redirect: nil, Private: nil, Starting: 0,
	}
	if cfg.TLSCert != "" && cfg.Private {
		if m.private, err = listen(ctx, "", "127.0.0.1:0", "--no-membridge"); err != nil {
			return err
		}
		c.Private = m.private
	}
	m.front, err = front.Open(ctx, c)
	return err
}

// URL is how this machine reaches it.
func (m *Membridge) URL() string { return localURL(m.front.Scheme(), m.listener.Addr()) }

// privateURL is how the rest of the same process reaches it.
func (m *Membridge) privateURL() string {
	if m.private == nil {
		return m.URL()
	}
	return localURL("http", m.private.Addr())
}

// Mode tells whom it answers.
func (m *Membridge) Mode() membridge.Mode { return m.server.Mode() }

// Run serves until ctx ends; the end of cut ends what is under way.
func (m *Membridge) Run(ctx, cut context.Context) error {
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	looped := make(chan error, 1)
	go func() { looped <- m.server.Run(background) }()
	m.front.Handle(m.server.Handler())
	front.Tell(front.Ready)
	var err error
	select {
	case err = <-m.front.Failed():
	case <-ctx.Done():
		wait, done := context.WithTimeout(cut, membridgeGrace)
		if m.front.Shutdown(wait, m.server.Quiesce) != nil {
			err = m.front.Close()
		}
		done()
	}
	stopBackground()
	return errors.Join(err, <-looped)
}

// Close lets go of everything; after Run or instead of it.
func (m *Membridge) Close() error {
	var errs []error
	if m.front != nil {
		errs = append(errs, m.front.Close())
	} else if m.listener != nil {
		if err := m.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if m.server != nil {
		errs = append(errs, m.server.Close())
	}
	return errors.Join(errs...)
}
