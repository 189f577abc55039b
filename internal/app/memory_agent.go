package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/front"
	"github.com/bloom-runtime/bloom/internal/membridge/announce"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/memory/agent"
)

// memoryAgent is the part of a worker, or all of a MemoryAgent, that synchronizes a project's
// memory. A nil memoryAgent does nothing.
type memoryAgent struct {
	*agent.Agent

	project *memory.Project
}

func openMemoryAgent(c config.Memory, every, interval time.Duration, bridge *mbclient.Client, b Build) (*memoryAgent, error) {
	project, err := OpenMemory(c, nil)
	if err != nil {
		return nil, err
	}
	return &memoryAgent{project: project, Agent: agent.New(agent.Config{
		Memory: project, Membridge: bridge, Every: every, Interval: interval, IPAddrs: addresses, Version: b.Version, Log: b.Logger,
	})}, nil
}

// start runs until stop, which returns when no push or pull is in progress.
func (m *memoryAgent) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
		m.project.Bucket.Close()
	}
}

func (m *memoryAgent) named(r mbclient.Registration) mbclient.Registration {
	if m != nil {
		r.NodeID = m.project.Node
	}
	return r
}

func (m *memoryAgent) described(b mbclient.Heartbeat) mbclient.Heartbeat {
	if m != nil {
		b.ObsCount, b.DBSHA = m.Facts()
	}
	return b
}

func (m *memoryAgent) carry(ctx context.Context, c mbclient.Command) mbclient.Report {
	if m == nil {
		return mbclient.Report{Status: announce.Failed, Detail: fmt.Sprintf("This worker synchronizes no memory: start it with CLAUDE_PROJECT_ID=%s and "+
			"the object storage's address (MINIO_ENDPOINT) and keys. Nothing was pushed or pulled", c.Project)}
	}
	return m.Execute(ctx, c)
}

// MemoryAgentConfig configures a MemoryAgent.
type MemoryAgentConfig struct {
	Memory config.Memory
	// Every is how often the memory is synchronized; 0 means only on membridge's request.
	Every time.Duration
	// Membridge is where the agent registers, under the node's name; without an address it does
	// not.
	Membridge MembridgeAccount
	Interval  time.Duration // between heartbeats
	DataDir   string
}

// MemoryAgent synchronizes a project's memory on a node without a worker.
type MemoryAgent struct {
	memory    *memoryAgent
	announcer *announce.Announcer // nil without membridge
	bridge    *mbclient.Client
}

// OpenMemoryAgent builds a MemoryAgent. It makes no requests before Run.
func OpenMemoryAgent(cfg MemoryAgentConfig, b Build) (*MemoryAgent, error) {
	if cfg.Membridge.URL == "" && cfg.Every == 0 {
		return nil, ConfigError{errors.New("nothing to do: set --memory-sync, membridge's address (MEMBRIDGE_SERVER_URL), or both")}
	}
	a := &MemoryAgent{}
	if cfg.Membridge.URL != "" {
		// The state folder is that of a worker of this name, because the token belongs to the
		// machine.
		state := filepath.Join(cfg.DataDir, "workers", url.PathEscape(cfg.Memory.Node))
		if err := os.MkdirAll(state, 0o700); err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		token, err := agentToken(state)
		if err != nil {
			return nil, err
		}
		if a.bridge, err = cfg.Membridge.client(token); err != nil {
			return nil, err
		}
	}
	var err error
	if a.memory, err = openMemoryAgent(cfg.Memory, cfg.Every, cfg.Interval, a.bridge, b); err != nil {
		return nil, err
	}
	if a.bridge != nil {
		a.announcer = announce.New(a.announcement(cfg, b))
	}
	return a, nil
}

func (a *MemoryAgent) announcement(cfg MemoryAgentConfig, b Build) announce.Config {
	return announce.Config{
		Client: a.bridge, Interval: cfg.Interval, Log: b.Logger.With(slog.String("node", cfg.Memory.Node)),
		Registration: func() mbclient.Registration {
			return a.memory.named(mbclient.Registration{Name: cfg.Memory.Node, Status: bloom.WorkerOnline,
				Capabilities: bloom.Capabilities{ClaudeCLI: false, MaxConcurrency: 1, Labels: []string{}}, IPAddrs: addresses(),
				AgentVersion: b.Version, OSInfo: runtime.GOOS + "/" + runtime.GOARCH, InstallMethod: "bloom memory agent"})
		},
		Heartbeat: func() mbclient.Heartbeat {
			return a.memory.described(mbclient.Heartbeat{Status: bloom.WorkerOnline, IPAddrs: addresses()})
		},
		OnDrain: nil, Execute: a.memory.carry, Keyless: false,
	}
}

// Run serves until ctx ends.
func (a *MemoryAgent) Run(ctx context.Context) error {
	front.Notify(front.Ready)
	defer front.Notify(front.Stopping)
	defer a.memory.start()()
	if a.announcer == nil {
		<-ctx.Done()
		return nil
	}
	a.announcer.Run(ctx)
	a.bridge.Close()
	return nil
}
