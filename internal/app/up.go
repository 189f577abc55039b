package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/durable"
)

// UpConfig configures `bloom up`.
type UpConfig struct {
	Server    config.Server
	Membridge config.Membridge
	Run       config.Run
	// Memory is what the worker synchronizes, MemoryEvery how often; see WorkerConfig.
	Memory      *config.Memory
	MemoryEvery time.Duration
	NoWorker    bool
}

// Up is a whole runtime in one process.
type Up struct {
	Server *Server
	Worker *Worker // nil without one
	// Membridge is nil when it is disabled or could not start; then MembridgeTrouble is the error.
	// The runtime works without it.
	Membridge        *Membridge
	MembridgeTrouble error
	// MembridgeKeyFile is the file of the generated admin key; "" when a key was configured.
	MembridgeKeyFile string

	opened atomic.Pointer[Server] // Server, for requests to membridge
}

// OpenUp builds server and worker. The worker uses the server over HTTP like any other, with a key
// that exists only in this process.
func OpenUp(ctx context.Context, cfg UpConfig, b Build) (_ *Up, err error) {
	key := ""
	if !cfg.NoWorker {
		key = randomKey()
	}
	u := &Up{}
	if !cfg.Server.NoMembridge {
		u.openMembridge(ctx, &cfg, b)
	} else {
		cfg.Server.NoMembridge = !cfg.Server.MembridgeChosen
	}
	if errors.As(u.MembridgeTrouble, new(ConfigError)) {
		return nil, u.MembridgeTrouble // other than a port in use, this must be fixed
	}
	if u.MembridgeTrouble != nil && !cfg.Server.MembridgeChosen {
		cfg.Server.NoMembridge = true // a membridge of another runtime has the port, with that runtime's workers
	}
	if u.Server, err = openServer(ctx, cfg.Server, b, key); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	u.opened.Store(u.Server)
	if u.Membridge != nil {
		u.Membridge.server.SetRuntimeURL(u.Server.openURL())
	}
	if cfg.NoWorker {
		return u, nil
	}
	u.Worker, err = OpenWorker(WorkerConfig{Run: cfg.Run, DataDir: cfg.Server.DataDir, URL: u.Server.privateURL(), Key: key, TLS: nil,
		Membridge: u.account(cfg), NoMembridge: u.Membridge == nil, Memory: cfg.Memory, MemoryEvery: cfg.MemoryEvery, InstallMethod: "bloom up"}, b)
	if err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return u, nil
}

// openMembridge starts the control plane beside the server and configures the server to use it.
// Both use the same database, if one is configured. The admin key, if none is set, is generated
// once and stored in the data directory. Requests from this machine require no key as long as the
// server requires none.
func (u *Up) openMembridge(ctx context.Context, cfg *UpConfig, b Build) {
	key := cfg.Server.MembridgeAdminKey
	var open func(context.Context) bool
	if key == "" {
		if cfg.Server.RuntimeAPIKey == "" && cfg.Membridge.AgentKey == "" && loopbackURL("http://"+cfg.Membridge.MembridgeListen) {
			open = u.development
		}
		made, err := keptKey(cfg.Server.DataDir)
		if err != nil {
			u.MembridgeTrouble = err
			return
		}
		key, u.MembridgeKeyFile = config.Secret(made), filepath.Join(cfg.Server.DataDir, adminKeyFile)
	}
	u.Membridge, u.MembridgeTrouble = OpenMembridge(ctx, MembridgeConfig{Membridge: cfg.Membridge, Rates: cfg.Server.Rates, Connections: cfg.Server.Connections, Private: true,
		DataDir: cfg.Server.DataDir, DatabaseURL: string(cfg.Server.DatabaseURL), AdminKey: string(key),
		RuntimeURL: "" /* set once the server listens */, Open: open, ListenFlag: "--membridge-listen"}, b)
	if u.MembridgeTrouble == nil {
		cfg.Server.MembridgeServerURL, cfg.Server.MembridgeAdminKey = u.Membridge.privateURL(), key
		cfg.Server.MembridgeCAFile = ""
		cfg.Server.MembridgeChosen = true
	}
}

// development reports whether the server requires no key, which ends with the first stored key.
func (u *Up) development(ctx context.Context) bool {
	server := u.opened.Load()
	return server != nil && server.auth.Development(ctx)
}

// adminKeyFile is the file of membridge's admin key in the data directory.
const adminKeyFile = "membridge-admin-key"

// keptKey reads membridge's admin key from the data directory, or generates one there, readable only
// by its owner.
func keptKey(dataDir string) (string, error) {
	path := filepath.Join(dataDir, adminKeyFile)
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	if err := durable.Create(path, []byte(randomKey()+"\n")); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("membridge's admin key: %w", err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("membridge's admin key: %w", err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" {
		return "", fmt.Errorf("membridge's admin key: %s is empty; remove it, or write a key into it", path)
	}
	return key, nil
}

// account returns the credentials of the worker in the same process for the membridge beside it.
func (u *Up) account(cfg UpConfig) MembridgeAccount {
	if u.Membridge == nil {
		return MembridgeAccount{} //nolint:exhaustruct_v5 // no membridge
	}
	return MembridgeAccount{URL: u.Membridge.privateURL(), TLS: nil, AgentKey: string(cfg.Membridge.AgentKey), AdminKey: string(cfg.Server.MembridgeAdminKey)}
}

// Run runs until ctx ends: then the worker drains while the server still accepts its reports, and
// the server stops. When cut ends, both stop quickly.
func (u *Up) Run(ctx, cut context.Context) error {
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	workerCtx, stopWorker := context.WithCancel(ctx)
	defer stopWorker()
	served := make(chan error, 1)
	go func() {
		defer stopWorker() // the worker cannot work without its server
		served <- u.Server.Run(serverCtx, cut)
	}()
	bridged := make(chan error, 1)
	go func() {
		if u.Membridge == nil {
			bridged <- nil
			return
		}
		bridged <- u.Membridge.Run(serverCtx, cut)
	}()
	var err error
	if u.Worker != nil {
		if err = u.Worker.Run(workerCtx, cut); err != nil {
			err = fmt.Errorf("local worker: %w", err)
		}
	} else {
		<-workerCtx.Done()
	}
	stopServer()
	return errors.Join(err, <-served, <-bridged)
}

// Close releases everything; call it after Run or instead of it.
func (u *Up) Close() error {
	var errs []error
	if u.Server != nil {
		errs = append(errs, u.Server.Close())
	}
	if u.Membridge != nil {
		errs = append(errs, u.Membridge.Close())
	}
	return errors.Join(errs...)
}
