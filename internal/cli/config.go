package cli

import (
	"errors"

	"github.com/bloom-runtime/bloom/internal/config"
)

type configCmd struct {
	Show configShowCmd `cmd:"" default:"withargs" help:"Print every setting and its source, with secrets masked."`
}

// configShowCmd has the settings of all roles, to show the value that each would get.
type configShowCmd struct {
	Server    config.Server    `embed:""`
	Membridge config.Membridge `embed:""`
	Worker    config.Run       `embed:""`
	Client    config.Client    `embed:""`
	JSON      bool             `name:"json" help:"Print JSON for programs."`
}

func (c *configShowCmd) Run(inv *invocation) error {
	wrong := errors.Join(inv.mistakes, c.finish(inv))
	settings := inv.sources.List()
	if c.JSON {
		return errors.Join(writeJSON(inv.Out, settings), usage(wrong))
	}
	t := newTable("SETTING", "VALUE", "FROM", "VARIABLE", "FLAG")
	for _, s := range settings {
		from := cell{text: s.Source}
		if s.From != "" {
			from = cell{text: s.Source + " " + s.From, style: styleCyan}
		}
		t.row(s.Key, dash(s.Value), from, s.Env, s.Flag)
	}
	return errors.Join(t.print(inv), usage(wrong))
}

func (c *configShowCmd) finish(inv *invocation) error {
	if err := c.Server.Finish(inv.sources); err != nil {
		return err
	}
	if err := c.Membridge.Finish(inv.sources); err != nil {
		return err
	}
	if err := c.Worker.Finish(c.Server.DataDir); err != nil {
		return err
	}
	return c.Client.Finish()
}
