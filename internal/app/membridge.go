package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/front"
	"github.com/bloom-runtime/bloom/internal/membridge"
)

// MembridgeFile is the control plane's database in the data directory.
const MembridgeFile = "membridge.db"

// MembridgeConfig configures a control plane.
type MembridgeConfig struct {
	config.Membridge
	config.Rates
	config.Connections
	DataDir     string
	DatabaseURL string
	AdminKey    string
	RuntimeURL  string // reported to agents; may be empty
	// Open reports whether requests from this machine require no key now; nil means never.
	Open func(context.Context) bool
	// Private opens an additional listener of plain HTTP for the server in the same process: the
	// certificate is for the public name.
	Private bool
	// ListenFlag is the flag that sets the address, for error messages.
	ListenFlag string
}

// Membridge is the control plane, open and ready to run.
type Membridge struct {
	server   *membridge.Server
	front    *front.Front
	listener net.Listener
	private  net.Listener // nil without one
}

// OpenMembridge builds the control plane and listens. Before Run, health checks are answered with
// 503 and other requests wait.
func OpenMembridge(ctx context.Context, cfg MembridgeConfig, b Build) (_ *Membridge, err error) {
	m := &Membridge{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	proxies, err := cfg.Proxies()
	if err != nil {
		return nil, ConfigError{err}
	}
	if m.listener, err = listen(ctx, front.SocketMembridge, cfg.MembridgeListen, cfg.ListenFlag+" 127.0.0.1:8001, or MEMBRIDGE_PORT"); err != nil {
		return nil, err
	}
	if err := m.openFront(ctx, cfg, b); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	opened := membridge.Config{
		DatabaseURL: cfg.DatabaseURL, DatabasePath: filepath.Join(cfg.DataDir, MembridgeFile),
		AdminKey: cfg.AdminKey, AgentKey: string(cfg.AgentKey), RequireTokens: cfg.AgentTokens == config.TokensRequired,
		SyncAgentKey: cfg.SyncAgentKey, Development: isLoopback(m.listener.Addr()), Open: cfg.Open,
		Limits: membridge.Limits{Address: cfg.RateAddress, Admin: cfg.RateKey, Agent: cfg.RateWorker},
		Known:  front.Known, Proxies: proxies, RuntimeURL: cfg.RuntimeURL, Version: b.Version, Log: b.Logger,
	}
	open := func() (err error) {
		m.server, err = membridge.Open(ctx, opened)
		return err
	}
	if err = open(); cfg.DatabaseURL != "" && err != nil {
		err = awaitDatabase(ctx, b.Logger, open)
	}
	if misuse := (membridge.ConfigError{}); errors.As(err, &misuse) {
		return nil, ConfigError{misuse}
	}
	if err != nil {
		return nil, fmt.Errorf("membridge: %w", err)
	}
	return m, nil
}

// openFront starts to accept connections.
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

// URL returns the URL for clients on this machine.
func (m *Membridge) URL() string { return localURL(m.front.Scheme(), m.listener.Addr()) }

// privateURL returns the URL for the rest of the same process.
func (m *Membridge) privateURL() string {
	if m.private == nil {
		return m.URL()
	}
	return localURL("http", m.private.Addr())
}

// Mode returns which callers are admitted.
func (m *Membridge) Mode() membridge.Mode { return m.server.Mode() }

// Run serves until ctx ends; when cut ends, active requests are cut off.
func (m *Membridge) Run(ctx, cut context.Context) error {
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	looped := make(chan error, 1)
	go func() { looped <- m.server.Run(background) }()
	m.front.Handle(m.server.Handler())
	front.Notify(front.Ready)
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

// Close releases everything; call it after Run or instead of it.
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
