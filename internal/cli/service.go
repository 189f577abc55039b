package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/service"
)

type serviceCmd struct {
	Install   serviceInstallCmd   `cmd:"" help:"Set roles up as services of this machine (OpenRC or systemd): users, folders, keys, settings, service definitions."`
	Uninstall serviceUninstallCmd `cmd:"" help:"Stop services and remove their definitions; settings, keys and data stay."`
}

// serviceTarget holds the flags of both commands.
type serviceTarget struct {
	Role   []string     `arg:"" name:"role" enum:"runtime,membridge,worker,memory" help:"Roles: runtime, membridge, worker, memory (the memory agent of --user)."`
	Init   service.Init `name:"init" enum:"auto,openrc,systemd" default:"auto" help:"Init system: auto (detect it), openrc, systemd."`
	User   string       `name:"user" placeholder:"NAME" help:"Whose memory the role memory moves; the agent runs as that user."`
	Root   string       `name:"root" placeholder:"DIR" help:"Root folder of a system image to install into; nothing is started."`
	DryRun bool         `name:"dry-run" help:"Print what would be done, change nothing."`
}

func (t serviceTarget) config() (service.Config, error) {
	c := service.Config{Roles: t.Role, Init: t.Init, User: t.User, Root: t.Root}
	var err error
	if c.Init == "auto" {
		if c.Init, err = service.Detect(t.Root); err != nil {
			return c, usage(err)
		}
	}
	if c.Program, err = os.Executable(); err != nil {
		return c, err
	}
	if !t.DryRun && t.Root == "" && os.Geteuid() != 0 {
		return c, usagef("managing services requires root: use sudo, or --dry-run to see what would be done")
	}
	return c, nil
}

type serviceInstallCmd struct {
	serviceTarget
	Set      []string `name:"set" sep:"none" placeholder:"NAME=VALUE" help:"Setting to write to the role's environment file (repeatable)."`
	KeyFile  string   `name:"worker-key-file" placeholder:"FILE" help:"File with the API key of this machine's worker."`
	CAFile   string   `name:"worker-ca-file" placeholder:"FILE" help:"Certificate authority (PEM) for the server's certificate, the only one that this machine's worker trusts; the file is copied."`
	Packaged bool     `name:"packaged" hidden:"" help:"Leave out what the package installs itself."`
	Now      bool     `name:"now" help:"Start the services now, and at every boot."`
}

func (c *serviceInstallCmd) Run(inv *invocation) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	for _, s := range c.Set {
		name, _, _ := strings.Cut(s, "=")
		if err := config.CheckVariable(inv.kong.Model, name); err != nil {
			return usagef("--set: %w", err)
		}
	}
	var key config.Secret
	if err := config.ReadKey("--worker-key-file", "", &key, c.KeyFile); err != nil {
		return usage(err)
	}
	cfg.Settings, cfg.Key, cfg.Packaged, cfg.Start = c.Set, string(key), c.Packaged, c.Now
	if c.CAFile != "" {
		if cfg.Authority, err = os.ReadFile(c.CAFile); err != nil {
			return usagef("--worker-ca-file: %v", err)
		}
	}
	steps, err := service.Install(cfg)
	if err != nil {
		return usage(err)
	}
	return inv.carryOut(c.serviceTarget, cfg, steps)
}

type serviceUninstallCmd struct {
	serviceTarget
	consent
}

func (c *serviceUninstallCmd) Run(inv *invocation) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	steps, err := service.Uninstall(cfg)
	if err != nil {
		return usage(err)
	}
	if !c.DryRun {
		if err := c.ask(inv, "Stop and remove the services of "+strings.Join(cfg.Roles, ", ")); err != nil {
			return err
		}
	}
	return inv.carryOut(c.serviceTarget, cfg, steps)
}

// carryOut executes the steps in order, or prints them.
func (inv *invocation) carryOut(t serviceTarget, cfg service.Config, steps []service.Step) error {
	inv.say("%s, for %s:", strings.Join(cfg.Roles, ", "), cfg.Init)
	if t.DryRun {
		return service.Print(inv.Out, steps)
	}
	for _, s := range steps {
		done, err := s.Do(inv.ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(inv.Out, clean(done, true))
	}
	return nil
}
