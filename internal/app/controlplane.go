package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/front"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// controlPlane adapts membridge's client to the interfaces of the runtime.
type controlPlane struct {
	client  *mbclient.Client
	log     *slog.Logger
	changed atomic.Pointer[func()]
	skipped atomic.Int64 // invalid entries of the last list
	// chosen reports that membridge's address was configured. Otherwise the default address is
	// tried, and it is no problem when nothing answers there.
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

// unconfigured reports whether no address was configured and the default one has never answered:
// then failures do not matter.
func (c *controlPlane) unconfigured() bool {
	return !c.chosen.Load() && c.client.State().LastSuccess == nil
}

// Health returns membridge's health report.
func (c *controlPlane) Health(ctx context.Context) (json.RawMessage, error) {
	return c.client.Health(ctx)
}

// Check makes a request that requires the admin key.
func (c *controlPlane) Check(ctx context.Context) error {
	if err := c.client.Check(ctx); err != nil && !c.unconfigured() {
		return err
	}
	return nil
}

// State returns the state of the connection.
func (c *controlPlane) State() dispatch.MembridgeState {
	if c.unconfigured() {
		return dispatch.MembridgeState{}
	}
	now := c.client.State()
	return dispatch.MembridgeState{ConsecutiveFailures: now.ConsecutiveFailures, LastSuccess: now.LastSuccess, LastError: now.LastError, Connected: now.Connected,
		Disabled: false, SkippedAgents: now.SkippedAgents, SkippedWhy: now.SkippedWhy}
}

// Configure replaces address and key. An invalid address is refused when it is saved; if one is
// stored anyway, it is ignored.
func (c *controlPlane) Configure(address, key string) {
	if err := c.client.Configure(address, key); err != nil {
		c.log.Error("membridge's saved address is invalid", "error", err)
		return
	}
	if address != c.first || key != "" {
		c.chosen.Store(true)
	}
	if f := c.changed.Load(); f != nil {
		(*f)()
	}
}

// onChange sets the function to call whenever membridge's address or key changes.
func (c *controlPlane) onChange(f func()) { c.changed.Store(&f) }

// ReadAgents lists the agents for the worker sync. It logs when invalid entries appear and when
// they are gone.
func (c *controlPlane) ReadAgents(ctx context.Context) ([]maintenance.Agent, error) {
	list, err := c.client.Agents(ctx)
	if err != nil && c.unconfigured() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state := c.client.State()
	switch before := c.skipped.Swap(int64(state.SkippedAgents)); {
	case state.SkippedAgents > 0 && before == 0:
		c.log.Warn("ignoring invalid agent entries of membridge", "agents", state.SkippedAgents, "first", state.SkippedWhy)
	case state.SkippedAgents == 0 && before > 0:
		c.log.Info("membridge lists no more invalid agent entries")
	}
	agents := make([]maintenance.Agent, len(list))
	for i, a := range list {
		agents[i] = maintenance.Agent{HeartbeatAt: int64(a.HeartbeatAt), Drain: a.Drain, WorkerReport: contract.WorkerReport{
			Name: a.Name, URL: a.URL, Status: a.Status, Capabilities: &a.Capabilities, IPAddrs: a.IPAddrs, ObsCount: bloom.ObsCount(a.ObsCount),
			PostedAt: int64(max(a.PostedAt, a.RegisteredAt)), DBSHA: a.DBSHA, AgentVersion: a.AgentVersion, OSInfo: a.OSInfo, InstallMethod: a.InstallMethod,
		}}
	}
	return agents, nil
}

// Do forwards a proxied request.
func (c *controlPlane) Do(ctx context.Context, method, path string, body json.RawMessage) (int, json.RawMessage, error) {
	return c.client.Do(ctx, method, path, body)
}
