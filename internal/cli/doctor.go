package cli

import (
	"fmt"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
)

type doctorCmd struct {
	config.Data
	Client config.Client `embed:""`
	Worker config.Run    `embed:""`
	Listen string        `name:"listen" var:"BLOOM_LISTEN" key:"listen" default:"127.0.0.1:5000" placeholder:"ADDR" help:"Address a server is to listen on."`
	JSON   bool          `name:"json" help:"Print JSON for programs."`
}

func (c *doctorCmd) Run(inv *invocation) error {
	if err := c.Client.Finish(); err != nil {
		return usage(err)
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return usage(err)
	}
	if err := c.Worker.Finish(dir); err != nil {
		return usage(err)
	}
	findings := app.Examine(inv.ctx, app.DoctorConfig{
		DataDir: dir, Listen: c.Listen, URL: c.Client.URL, Key: string(c.Client.APIKey), Run: c.Worker,
	})
	bad := 0
	for _, f := range findings {
		if f.Status == app.Wrong {
			bad++
		}
	}
	if c.JSON {
		if err := writeJSON(inv.Out, findings); err != nil {
			return err
		}
	} else {
		printFindings(inv, findings, bad)
	}
	if bad > 0 {
		return errSilent
	}
	return nil
}

func printFindings(inv *invocation, findings []app.Finding, bad int) {
	p := inv.outPainter()
	for _, f := range findings {
		mark, style := "ok   ", styleGreen
		switch f.Status {
		case app.Wrong:
			mark, style = "WRONG", styleRed
		case app.Doubtful:
			mark, style = "note ", styleYellow
		case app.Fine:
		}
		fmt.Fprintf(inv.Out, "%s  %-12s %s\n", p.paint(style, mark), f.Name, clean(f.Detail, false))
		if f.Fix != "" {
			fmt.Fprintf(inv.Out, "       %-12s %s\n", "", p.paint(styleBold, clean("→ "+f.Fix, false)))
		}
	}
	if bad == 0 {
		fmt.Fprintln(inv.Out, "\nNo problems found.")
	} else {
		fmt.Fprintf(inv.Out, "\n%s to fix.\n", plural(int64(bad), "thing"))
	}
}
