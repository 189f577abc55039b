package cli

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/front"
)

type doctorCmd struct {
	config.Data
	Client config.Client `embed:""`
	Worker config.Run    `embed:""`
	Listen string        `name:"listen" var:"BLOOM_LISTEN" key:"listen" default:"127.0.0.1:5000" placeholder:"ADDR" help:"Address that a server would listen on."`
	Port   int           `name:"port" var:"PORT" key:"port" placeholder:"N" help:"Port to listen on, unless --listen sets one."`
	JSON   bool          `name:"json" help:"Print JSON for programs."`
}

func (c *doctorCmd) Run(inv *invocation) error {
	if err := c.Client.Finish(); err != nil {
		return usage(err)
	}
	secure, err := front.Client(c.Client.CAFile, c.Client.Cert, c.Client.CertKey, slog.New(slog.DiscardHandler))
	if err != nil {
		return usage(err)
	}
	listen, err := c.server(inv.sources)
	if err != nil {
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
		DataDir: dir, Listen: listen, URL: c.Client.URL, Key: string(c.Client.APIKey), TLS: secure, Run: c.Worker,
	})
	if c.JSON {
		if err := writeJSON(inv.Out, findings); err != nil {
			return err
		}
	} else {
		printFindings(inv, findings)
	}
	if counted(findings, app.Wrong) > 0 {
		return errSilent
	}
	return nil
}

// server returns the address to examine, "" for none, where only the server's URL or only its
// address is set: the other follows from it.
func (c *doctorCmd) server(src config.Sources) (listen string, err error) {
	if listen, err = config.ListenAddress(src, c.Listen, c.Port); err != nil {
		return "", err
	}
	named := src.Of("runtime_url", "BLOOM_RUNTIME_URL") != config.FromDefault
	placed := src.Of("listen", "BLOOM_LISTEN") != config.FromDefault || src.Of("port", "PORT") != config.FromDefault
	at, err := url.Parse(c.Client.URL)
	if err != nil {
		return "", err
	}
	switch {
	case placed && !named:
		host, port, err := net.SplitHostPort(listen)
		if err != nil || port == "0" {
			return listen, err
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		c.Client.URL = "http://" + net.JoinHostPort(host, port)
	case named && !placed && !loopback(at.Hostname()):
		return "", nil
	case named && !placed:
		port := at.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[at.Scheme]
		}
		listen = net.JoinHostPort(at.Hostname(), port)
	}
	return listen, nil
}

func printFindings(inv *invocation, findings []app.Finding) {
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
	switch bad, notes := counted(findings, app.Wrong), counted(findings, app.Doubtful); {
	case bad > 0:
		fmt.Fprintf(inv.Out, "\n%s to fix.\n", plural(bad, "thing"))
	case notes > 0:
		fmt.Fprintf(inv.Out, "\nNo problem stops the work; %s to look at.\n", plural(notes, "note"))
	default:
		fmt.Fprintln(inv.Out, "\nNo problems found.")
	}
}

func counted(findings []app.Finding, v app.Verdict) (n int64) {
	for _, f := range findings {
		if f.Status == v {
			n++
		}
	}
	return n
}
