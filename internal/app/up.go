package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloom-runtime/bloom/internal/config"
)

// UpConfig is what `bloom up` needs.
type UpConfig struct {
	Server   config.Server
	Run      config.Run
	NoWorker bool
}

// Up is a whole runtime in one process.
type Up struct {
	Server *Server
	Worker *Worker // nil without one
}

// OpenUp builds server and worker. The worker speaks to the server over HTTP
// like any other, with a key of its own that nobody else ever sees.
func OpenUp(ctx context.Context, cfg UpConfig, b Build) (_ *Up, err error) {
	key := cfg.Server.RuntimeWorkerKey
	if cfg.Server.RuntimeAPIKey != "" && key == "" {
		key = config.Secret(randomKey())
		cfg.Server.RuntimeWorkerKey = key
	}
	u := &Up{}
	if u.Server, err = OpenServer(ctx, cfg.Server, b); err != nil {
		return nil, err
	}
	if cfg.NoWorker {
		return u, nil
	}
	u.Worker, err = OpenWorker(WorkerConfig{Run: cfg.Run, DataDir: cfg.Server.DataDir,
		URL: u.Server.URL(), Key: string(key), InstallMethod: "bloom up"}, b)
	if err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return u, nil
}

// Run runs until ctx ends: first the worker drains, while the server still
// takes its reports, then the server stops. The end of cut hurries both.
func (u *Up) Run(ctx, cut context.Context) error {
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	workerCtx, stopWorker := context.WithCancel(ctx)
	defer stopWorker()
	served := make(chan error, 1)
	go func() {
		defer stopWorker() // without its server a worker of one process has nothing to do
		served <- u.Server.Run(serverCtx, cut)
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
	return errors.Join(err, <-served)
}

// Close lets go of everything; after Run or instead of it.
func (u *Up) Close() error { return u.Server.Close() }
