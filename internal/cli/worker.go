package cli

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/front"
)

type workerCmd struct {
	config.Data
	Worker               config.Run          `embed:""`
	Client               config.Client       `embed:"" group:"Server:"`
	Membridge            config.Announcement `embed:"" group:"Membridge:"`
	config.ObjectStorage `group:"Memory:"`
	nodeMemory           `group:"Memory:"`
}

// nodeMemory holds the settings of the memory that a worker synchronizes.
type nodeMemory struct {
	Rules config.MemoryRules `embed:"" prefix:"memory-"`
	Sync  config.MemorySync  `embed:""`
}

// finish returns the memory to synchronize; nil without one.
func (c *nodeMemory) finish(storage config.ObjectStorage) (*config.Memory, error) {
	mem, err := config.Memory{ObjectStorage: storage, MemoryRules: c.Rules}.OfWorker()
	if err != nil {
		return nil, err
	}
	return mem, c.Sync.Finish(mem)
}

func (c *workerCmd) Run(inv *invocation) error {
	if err := c.Client.Finish(); err != nil {
		return usage(err)
	}
	if err := c.Membridge.Finish(); err != nil {
		return usage(err)
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return usage(err)
	}
	if err := c.Worker.Finish(dir); err != nil {
		return usage(err)
	}
	mem, err := c.finish(c.ObjectStorage)
	if err != nil {
		return usage(err)
	}
	build, err := inv.build("worker")
	if err != nil {
		return err
	}
	// With membridge and without a runtime, membridge provides the runtime's URL.
	address, runtime := c.Client.URL, c.Client.URL
	if c.Membridge.MembridgeURL != "" && inv.sources.Of("runtime_url", "BLOOM_RUNTIME_URL") == config.FromDefault {
		address, runtime = "", "the runtime that "+c.Membridge.MembridgeURL+" names"
	}
	secure, err := front.Client(c.Client.CAFile, c.Client.Cert, c.Client.CertKey, build.Logger)
	if err != nil {
		return usage(err)
	}
	account, err := membridgeAccount(c.Membridge, build.Logger)
	if err != nil {
		return err
	}
	w, err := app.OpenWorker(app.WorkerConfig{Run: c.Worker, DataDir: dir, URL: address, Key: string(c.Client.APIKey), TLS: secure,
		Membridge: account, NoMembridge: false, Memory: mem, MemoryEvery: c.Sync.Every, InstallMethod: "bloom worker"}, build)
	if err != nil {
		return err
	}
	inv.say("Worker %s for %s runs up to %d tasks at once; their files are in %s", c.Worker.Name, runtime, c.Worker.MaxConcurrency, c.Worker.Folders())
	inv.claudeBanner(inv.ctx, w)
	return w.Run(inv.ctx, inv.cut)
}

// membridgeAccount returns how a worker or a node authenticates to membridge.
func membridgeAccount(c config.Announcement, log *slog.Logger) (app.MembridgeAccount, error) {
	secure, err := front.Client(c.MembridgeCAFile, "", "", log)
	if err != nil {
		return app.MembridgeAccount{}, usage(fmt.Errorf("--membridge-ca-file: %w", err))
	}
	return app.MembridgeAccount{URL: c.MembridgeURL, TLS: secure, AgentKey: string(c.AgentKey), AdminKey: string(c.MembridgeAdminKey)}, nil
}
