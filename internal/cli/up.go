package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/telemetry"
)

type upCmd struct {
	config.Server
	Membridge  config.Membridge `embed:"" group:"Membridge:"`
	Worker     config.Run       `embed:"" group:"Worker:"`
	nodeMemory `group:"Memory:"`
	NoWorker   bool `name:"no-worker" help:"Run no worker here."`
}

func (c *upCmd) Run(inv *invocation) error {
	if err := c.Server.Finish(inv.sources); err != nil {
		return usage(err)
	}
	if err := c.Membridge.Finish(inv.sources); err != nil {
		return usage(err)
	}
	if err := c.Worker.Finish(c.DataDir); err != nil {
		return usage(err)
	}
	storage := c.Server.ObjectStorage
	storage.MinioSecretKeyFile = "" // already read
	mem, err := c.finish(storage)
	if err != nil {
		return usage(err)
	}
	build, err := inv.build("up")
	if err != nil {
		return err
	}
	if inv.ErrTerminal { // a person reads it, not a program
		build.RequestLevel = slog.LevelDebug
	}
	up, err := app.OpenUp(inv.ctx, app.UpConfig{Server: c.Server, Membridge: c.Membridge, Run: c.Worker,
		Memory: mem, MemoryEvery: c.Sync.Every, NoWorker: c.NoWorker}, build)
	if err != nil {
		return err
	}
	inv.modeBanner(up.Server)
	inv.welcome(up.Server, c.Server)
	if up.MembridgeTrouble != nil {
		fmt.Fprintln(inv.Out, inv.outPainter().paint(styleYellow, clean("NO MEMBRIDGE: "+up.MembridgeTrouble.Error()+
			". Everything else works; use --no-membridge to run without it.", false)))
	} else if up.Membridge != nil {
		inv.say("membridge, the control plane, is at %s", up.Membridge.URL())
		if up.MembridgeKeyFile != "" && up.Server.Mode() != auth.ModeDevelopment {
			inv.say("its admin key (X-MEMBRIDGE-ADMIN) is in %s; set MEMBRIDGE_ADMIN_KEY to use another", up.MembridgeKeyFile)
		}
	}
	if up.Worker != nil {
		inv.say("files of tasks are in %s", c.Worker.Folders())
		checked := make(chan struct{})
		ctx, done := context.WithCancel(inv.ctx)
		go func() {
			defer close(checked)
			inv.claudeBanner(ctx, up.Worker)
		}()
		defer func() { done(); <-checked }()
	}
	return closing(up.Run(inv.ctx, inv.cut), up)
}

type serverCmd struct{ config.Server }

func (c *serverCmd) Run(inv *invocation) error {
	if err := c.Server.Finish(inv.sources); err != nil {
		return usage(err)
	}
	build, err := inv.build("server")
	if err != nil {
		return err
	}
	server, err := app.OpenServer(inv.ctx, c.Server, build)
	if err != nil {
		return err
	}
	inv.modeBanner(server)
	inv.say("BLOOM Runtime listens at %s, data in %s", server.URL(), c.DataDir)
	return closing(server.Run(inv.ctx, inv.cut), server)
}

// spansGrace is how long exporting the last spans may take.
const spansGrace = 5 * time.Second

// build returns what every role needs: the version and a logger.
func (inv *invocation) build(role string) (app.Build, error) {
	log, err := telemetry.OpenLog(telemetry.LogConfig{Level: inv.log.LogLevel, Format: inv.log.LogFormat, File: inv.log.LogFile, Writer: inv.Err})
	if err != nil {
		return app.Build{}, usage(err)
	}
	inv.reloads(log)
	slog.SetDefault(log.Logger) // for libraries; our packages get theirs explicitly
	tracing, err := telemetry.OpenTracing(inv.ctx, role, Version, log.Logger)
	if err != nil {
		return app.Build{}, usage(err)
	}
	inv.ends = slices.Insert(inv.ends, 0, func() { // before the log is closed
		ctx, done := context.WithTimeout(context.WithoutCancel(inv.ctx), spansGrace)
		defer done()
		_ = tracing.Close(ctx) // failures are logged
	})
	return app.Build{Version: Version, Logger: log.Logger, Tracing: tracing}, nil
}

// reloads reads the log level from the config file again on SIGHUP, until the command ends.
// Certificates are reloaded when their files change.
func (inv *invocation) reloads(log *telemetry.Log) {
	ended := make(chan struct{})
	done := make(chan struct{})
	inv.ends = append(inv.ends, func() { close(ended); <-done; _ = log.Close() })
	go func() {
		defer close(done)
		for {
			select {
			case <-inv.Reload:
			case <-ended:
				return
			}
			level, err := inv.sources.FileValue("log_level")
			if err == nil {
				err = log.SetLevel(level)
			}
			if err != nil {
				log.Error("log level unchanged", "error", err)
				continue
			}
			log.Info("reloaded", "log_level", cmp.Or(level, inv.log.LogLevel))
		}
	}()
}

// closing closes a role after its run and returns the first error.
func closing(err error, role interface{ Close() error }) error {
	if cerr := role.Close(); err == nil {
		err = cerr
	}
	return err
}
