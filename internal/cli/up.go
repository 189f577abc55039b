package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/front"
	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/telemetry"
)

type upCmd struct {
	config.Server
	Membridge config.Membridge `embed:""`
	Worker    config.Run       `embed:""`
	nodeMemory
	NoWorker bool `name:"no-worker" help:"Run no worker here."`
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
	storage.MinioSecretKeyFile = "" // it was read
	mem, err := c.finish(storage)
	if err != nil {
		return usage(err)
	}
	build, err := inv.build("up")
	if err != nil {
		return err
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
			". Everything else works; --no-membridge does without it.", false)))
	} else if up.Membridge != nil {
		inv.say("membridge, the control plane, is at %s", up.Membridge.URL())
		if up.MembridgeKeyFile != "" && up.Server.Mode() != auth.ModeDevelopment {
			inv.say("its admin key (X-MEMBRIDGE-ADMIN) is in %s; MEMBRIDGE_ADMIN_KEY sets another", up.MembridgeKeyFile)
		}
	}
	if up.Worker != nil {
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

type workerCmd struct {
	config.Data
	Client    config.Client       `embed:""`
	Membridge config.Announcement `embed:""`
	Worker    config.Run          `embed:""`
	config.ObjectStorage
	nodeMemory
}

// nodeMemory is the settings of the memory that a worker moves beside its tasks.
type nodeMemory struct {
	Rules config.MemoryRules `embed:"" prefix:"memory-"`
	Sync  config.MemorySync  `embed:""`
}

// finish is the memory to move; nil without one.
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
	// Whoever names membridge and no runtime has membridge say where that is.
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
	inv.say("Worker %s for %s runs up to %d tasks at once in %s", c.Worker.Name, runtime, c.Worker.MaxConcurrency, c.Worker.Workdir)
	inv.claudeBanner(inv.ctx, w)
	return w.Run(inv.ctx, inv.cut)
}

// membridgeAccount is how a worker or a node shows itself to membridge.
func membridgeAccount(c config.Announcement, log *slog.Logger) (app.MembridgeAccount, error) {
	secure, err := front.Client(c.MembridgeCAFile, "", "", log)
	if err != nil {
		return app.MembridgeAccount{}, usage(fmt.Errorf("--membridge-ca-file: %w", err))
	}
	return app.MembridgeAccount{URL: c.MembridgeURL, TLS: secure, AgentKey: string(c.AgentKey), AdminKey: string(c.MembridgeAdminKey)}, nil
}

// spansGrace is how long the last spans may take to be exported.
const spansGrace = 5 * time.Second

// build makes what every role is given: the version and a logger.
func (inv *invocation) build(role string) (app.Build, error) {
	log, err := telemetry.OpenLog(telemetry.LogConfig{Level: inv.log.LogLevel, Format: inv.log.LogFormat, File: inv.log.LogFile, Writer: inv.Err})
	if err != nil {
		return app.Build{}, usage(err)
	}
	inv.reloads(log)
	slog.SetDefault(log.Logger) // for libraries; our own parts are handed theirs
	tracing, err := telemetry.OpenTracing(inv.ctx, role, Version, log.Logger)
	if err != nil {
		return app.Build{}, usage(err)
	}
	inv.ends = slices.Insert(inv.ends, 0, func() { // before the log's
		ctx, done := context.WithTimeout(context.WithoutCancel(inv.ctx), spansGrace)
		defer done()
		_ = tracing.Close(ctx) // what fails is logged
	})
	return app.Build{Version: Version, Logger: log.Logger, Tracing: tracing}, nil
}

// reloads reads the log's level in the config file again whenever SIGHUP says so,
// until the command ends. Certificates need no word: they are read when they change.
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
				log.Error("the log's level stays", "error", err)
				continue
			}
			log.Info("reloaded", "log_level", cmp.Or(level, inv.log.LogLevel))
		}
	}()
}

// closing closes a role after its run; the first failure counts.
func closing(err error, role interface{ Close() error }) error {
	if cerr := role.Close(); err == nil {
		err = cerr
	}
	return err
}

func (inv *invocation) say(format string, args ...any) {
	fmt.Fprintln(inv.Out, clean(fmt.Sprintf(format, args...), true))
}

// modeBanner says aloud when nobody is asked for a key.
func (inv *invocation) modeBanner(s *app.Server) {
	p := inv.outPainter()
	switch s.Mode() {
	case auth.ModeDevelopment:
		fmt.Fprintln(inv.Out, p.paint(styleYellow, "DEVELOPMENT MODE: no key is set; anyone logged in to this machine may do everything,\n  and so may everyone who comes through a proxy on it.\n"+
			"  To set one:  export RUNTIME_API_KEY=$(openssl rand -hex 32)"))
	case auth.ModeInsecure:
		fmt.Fprintln(inv.Out, p.paint(styleRed, "INSECURE: --insecure-no-auth makes everyone who can reach this address an admin, and a task runs code."))
	case auth.ModeKeys:
	}
}

// welcome prints where to look and two lines that work as they stand.
func (inv *invocation) welcome(s *app.Server, cfg config.Server) {
	header, env := "", ""
	if s.Mode() == auth.ModeKeys {
		key := "$RUNTIME_API_KEY"
		if cfg.RuntimeAPIKeyFile != "" {
			key = "$(cat " + memory.Quote(cfg.RuntimeAPIKeyFile) + ")"
		}
		header = ` -H "X-Runtime-API-Key: ` + key + `"`
		env = `BLOOM_API_KEY="` + key + `" `
	}
	flag := ""
	if s.URL() != "http://127.0.0.1:5000" {
		flag = " --url " + s.URL()
	}
	p := inv.outPainter()
	fmt.Fprintf(inv.Out, `%s  %s
  API docs   %s/docs
  data       %s

Post a task and watch it:
  %s%s task run%s "Say hello in one line."
or:
  curl -s %s/api/runtime/llm-tasks%s -H 'Content-Type: application/json' -d '{"context_id":"hello","agent_slug":"assistant","prompt":"Say hello in one line."}'

Ctrl-C stops everything.
`, p.paint(styleBold, "BLOOM Runtime"), s.URL(), s.URL(), cfg.DataDir, env, thisProgram(), flag, s.URL(), header)
}

// thisProgram is how to call this binary again from a shell.
func thisProgram() string {
	self, err := os.Executable()
	if err != nil {
		return "bloom"
	}
	if found, err := exec.LookPath("bloom"); err == nil {
		if a, err := os.Stat(found); err == nil {
			if b, err := os.Stat(self); err == nil && os.SameFile(a, b) {
				return "bloom"
			}
		}
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, self); err == nil && !strings.HasPrefix(rel, "..") {
			return memory.Quote("./" + rel)
		}
	}
	return memory.Quote(self)
}

// claudeBanner says whether tasks can be run here. Without claude or without
// credentials everything else goes on.
func (inv *invocation) claudeBanner(ctx context.Context, w *app.Worker) {
	status, err := w.Claude(ctx)
	p := inv.outPainter()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		fmt.Fprintln(inv.Out, p.paint(styleYellow, clean("NO CLAUDE: "+err.Error()+". Tasks wait until it is there; everything else works.", false)))
	case !status.LoggedIn:
		fmt.Fprintln(inv.Out, p.paint(styleYellow, clean("NO CREDENTIALS for a model: "+status.Login+". Tasks will fail until then; everything else works.", false)))
	default:
		inv.say("claude %s, %s", status.Version, status.Login)
	}
}
