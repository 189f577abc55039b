package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/memory"
)

func (inv *invocation) say(format string, args ...any) {
	fmt.Fprintln(inv.Out, clean(fmt.Sprintf(format, args...), true))
}

// progress prints a step of a long command for people, and nothing to a pipe.
func (inv *invocation) progress(format string, args ...any) {
	if inv.ErrTerminal {
		fmt.Fprintln(inv.Err, clean(fmt.Sprintf(format, args...), true))
	}
}

// modeBanner warns when no key is required.
func (inv *invocation) modeBanner(s *app.Server) {
	p := inv.outPainter()
	switch s.Mode() {
	case auth.ModeDevelopment:
		fmt.Fprintln(inv.Out, p.paint(styleYellow, "DEVELOPMENT MODE: no key is set; everyone logged in to this machine may do everything,\n  and so may everyone who connects through a proxy on it.\n"+
			"  To set one:  export RUNTIME_API_KEY=$(openssl rand -hex 32)"))
	case auth.ModeInsecure:
		fmt.Fprintln(inv.Out, p.paint(styleRed, "INSECURE: --insecure-no-auth makes everyone who can reach this address an admin, and tasks run code."))
	case auth.ModeKeys:
	}
}

// welcome prints the URL and two commands to try.
func (inv *invocation) welcome(s *app.Server, cfg config.Server) {
	header, env := "", ""
	if s.Mode() == auth.ModeKeys {
		key := "KEY" // one in the database, or in the config file
		switch {
		case cfg.RuntimeAPIKeyFile != "":
			key = "$(cat " + memory.Quote(cfg.RuntimeAPIKeyFile) + ")"
		case inv.sources.Of("runtime_api_key", "RUNTIME_API_KEY") == config.FromEnv:
			key = "$RUNTIME_API_KEY"
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

Submit a task and follow it:
  %s%s task run%s "Say hello in one line."
or:
  curl -s %s/api/runtime/llm-tasks%s -H 'Content-Type: application/json' -d '{"context_id":"hello","agent_slug":"assistant","prompt":"Say hello in one line."}'

Ctrl-C stops everything once running tasks have had time to finish; a second one stops at once.
`, p.paint(styleBold, "BLOOM Runtime"), s.URL(), s.URL(), cfg.DataDir, env, thisProgram(), flag, s.URL(), header)
}

// command returns a command for the same server as this one, with the options for it that were on
// this command line. A key is only given as a file: printed commands are copied and logged.
func (inv *invocation) command(args string) string {
	given := inv.sources.Given("runtime_url", "api_key_file", "ca_file", "client_cert", "client_key")
	if inv.file != "" {
		given = append(given, "--config", inv.file)
	}
	if len(inv.sources.Given("api_key")) > 0 {
		given = append(given, "--key-file", "FILE")
	}
	for i, arg := range given {
		given[i] = memory.Quote(arg)
	}
	return strings.Join(append([]string{"bloom", args}, given...), " ")
}

// thisProgram returns the shell command for this binary.
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

// claudeBanner warns when tasks cannot run here. Without claude or credentials everything else
// still works.
func (inv *invocation) claudeBanner(ctx context.Context, w *app.Worker) {
	status, err := w.Claude(ctx)
	p := inv.outPainter()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		fmt.Fprintln(inv.Out, p.paint(styleYellow, clean("NO CLAUDE: "+err.Error()+". Tasks wait until it is installed; everything else works.", false)))
	case !status.LoggedIn:
		fmt.Fprintln(inv.Out, p.paint(styleYellow, clean("NO CREDENTIALS for a model: "+status.Login+". Tasks will fail until then; everything else works.", false)))
	default:
		inv.say("claude %s, %s", status.Version, status.Login)
	}
}
