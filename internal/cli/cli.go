// Package cli is the command line, with one file per command. A command reads its settings, calls
// the SDK or the composition root, and prints the result. It has no rules about tasks.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"os/user"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// System is the command line's access to the machine; tests replace it.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) (string, bool)
	Hostname string
	// OutTerminal and ErrTerminal report whether the stream is a terminal.
	OutTerminal, ErrTerminal bool
	InTerminal               bool // whether In is a terminal
	Columns                  int  // the width of the terminal Out; 0 if unknown
	// Signals delivers interrupts and terminations.
	Signals <-chan os.Signal
	// Reload delivers requests to reload the settings that can change at run time.
	Reload <-chan os.Signal
}

// RealSystem returns the real machine and starts to catch signals.
func RealSystem() System {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	return System{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv, Hostname: host,
		OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr), InTerminal: isTerminal(os.Stdin), Columns: columnsOf(os.Stdout), Signals: signals, Reload: hangups(),
	}
}

// hangups catches SIGHUP, unless it comes from a closing terminal: then it ends the process.
func hangups() <-chan os.Signal {
	if isTerminal(os.Stderr) {
		return nil
	}
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	return reload
}

// commands is the root of the command line, in the order of the help.
type commands struct {
	ConfigFile string           `name:"config" placeholder:"FILE" help:"Config file (TOML); default: ~/.config/bloom/config.toml when it exists. Also BLOOM_CONFIG."`
	NoColor    bool             `name:"no-color" help:"Print without colour. NO_COLOR does the same."`
	Version_   kong.VersionFlag `name:"version" help:"Print the version and exit."`
	config.Log

	Up        upCmd        `cmd:"" group:"Run:" help:"Run server, membridge and worker in one process."`
	Server    serverCmd    `cmd:"" group:"Run:" help:"Run the runtime server."`
	Worker    workerCmd    `cmd:"" group:"Run:" help:"Run a worker that executes tasks with claude."`
	Membridge membridgeCmd `cmd:"" group:"Run:" help:"Run membridge, the control plane."`
	Service   serviceCmd   `cmd:"" group:"Run:" help:"Run roles as services of this machine."`

	Run       taskRunCmd   `cmd:"" group:"Tasks:" help:"Submit a task and follow it: short for bloom task run."`
	Logs      taskLogsCmd  `cmd:"" group:"Tasks:" help:"Show a task's events: short for bloom task logs."`
	Task      taskCmd      `cmd:"" group:"Tasks:" help:"Run, list, follow, cancel and requeue tasks."`
	Approvals approvalsCmd `cmd:"" group:"Tasks:" help:"Decide what Claude may do."`
	Schedules schedulesCmd `cmd:"" group:"Tasks:" help:"Start tasks by the clock."`
	Contexts  contextsCmd  `cmd:"" group:"Tasks:" help:"List, show and remove conversations."`
	Artifacts artifactsCmd `cmd:"" group:"Tasks:" help:"List, read, verify and move results and files."`

	Workers workersCmd `cmd:"" group:"Fleet:" help:"List, show, drain and remove workers."`
	Leases  leasesCmd  `cmd:"" group:"Fleet:" help:"List the attempts of tasks on workers."`
	Stats   statsCmd   `cmd:"" group:"Fleet:" help:"Count tasks, leases and workers, now or over time."`
	Memory  memoryCmd  `cmd:"" group:"Fleet:" help:"Move a project's memory between nodes."`

	Keys      keysCmd      `cmd:"" group:"Administration:" help:"Create, list and revoke keys."`
	Audit     auditCmd     `cmd:"" group:"Administration:" help:"List, verify and export the audit log."`
	Config    configCmd    `cmd:"" group:"Administration:" help:"Show every setting and where its value comes from."`
	Backup    backupCmd    `cmd:"" group:"Administration:" help:"Copy the database to a file."`
	Migrate   migrateCmd   `cmd:"" group:"Administration:" help:"Show or upgrade the schema, or import data."`
	Retention retentionCmd `cmd:"" group:"Administration:" help:"Show how long servers keep data; removes nothing."`
	Secrets   secretsCmd   `cmd:"" group:"Administration:" help:"Change the key that encrypts secrets in the database."`

	Doctor     doctorCmd     `cmd:"" group:"Tools:" help:"Find what is wrong on this machine, and how to fix it."`
	Bench      benchCmd      `cmd:"" group:"Tools:" help:"Measure a running server that has no other work."`
	OpenAPI    openapiCmd    `cmd:"" group:"Tools:" name:"openapi" help:"Print the API description (OpenAPI 3.1, JSON)."`
	Completion completionCmd `cmd:"" group:"Tools:" help:"Print a completion script for bash, zsh or fish."`
	Man        manCmd        `cmd:"" group:"Tools:" help:"Print the manual page."`
	Licenses   licensesCmd   `cmd:"" group:"Tools:" help:"Print the licences of the components that are built in."`
	Version    versionCmd    `cmd:"" hidden:"" group:"Tools:" help:"Print the version."`
	Help_      helpCmd       `cmd:"" group:"Tools:" name:"help" help:"Explain a command, or: settings, ids, output, exit-codes."`
	Complete   completeCmd   `cmd:"" group:"Tools:" name:"__complete" hidden:""`
}

// invocation is one run of a command.
type invocation struct {
	System
	ctx     context.Context // ends at the first signal
	cut     context.Context // ends at the second
	colour  bool
	log     config.Log
	ends    []func() // run when the command ends, last first
	sources config.Sources
	file    string // the value of --config
	// mistakes are errors in the config file or the environment, for the command that shows them.
	mistakes error
	kong     *kong.Context
}

// usageError is an error in the invocation: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// isUsage reports whether what the user set is wrong.
func isUsage(err error) bool {
	return errors.As(err, new(usageError)) || errors.As(err, new(app.ConfigError))
}

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitError ends the program with a specific exit code.
type exitError struct {
	error

	code int
}

func (e exitError) Unwrap() error { return e.error }

// errSilent fails without a message: the command has already printed it.
var errSilent = errors.New("")

// errInterrupted is returned when the user interrupted the command.
var errInterrupted = errors.New("interrupted")

// exitNow is a panic value that unwinds the parser, which ends the process for --help.
type exitNow int

// Main runs one command line and returns the exit code.
func Main(args []string, sys System) (code int) {
	defer func() {
		if r := recover(); r != nil {
			now, ok := r.(exitNow)
			if !ok {
				panic(r)
			}
			code = int(now)
		}
	}()
	if sys.OutTerminal {
		sys.Out = &lockedWriter{w: &screen{w: sys.Out}}
	}
	var root commands
	parser, resolver, err := newParser(&root, args, sys)
	if err != nil {
		return fail(sys, usage(err))
	}
	kctx, err := parser.Parse(meant(args, parser.Model.Node))
	dropNames(parser.Model.Node)
	if err == nil {
		err = checkGiven(kctx)
	} else if group := bareCommand(err); group != nil {
		err := group.PrintUsage(false)
		if len(args) == 0 && newcomer(sys, resolver.File.Path) {
			fmt.Fprint(sys.Out, firstSteps)
		}
		return fail(sys, err)
	}
	if err != nil {
		return fail(sys, usagef("%w\nSee: bloom %s--help", mistake(err), commandOf(kctx, err)))
	}
	if err := resolver.Mistakes.Err(); err != nil && !toleratesConfigErrors(kctx) {
		return fail(sys, usage(err))
	}
	inv := &invocation{System: sys, kong: kctx, log: root.Log, file: root.ConfigFile, sources: config.NewSources(kctx, resolver), mistakes: resolver.Mistakes.Err()}
	_, noColour := sys.Env("NO_COLOR")
	term, _ := sys.Env("TERM")
	inv.colour = !noColour && !root.NoColor && term != "dumb"
	stop := inv.listen()
	defer stop()
	defer func() {
		for _, end := range inv.ends {
			end()
		}
	}()
	err = inv.named(kctx.Run(inv))
	if errors.Is(err, context.Canceled) {
		err = interrupted(inv, err)
	}
	if isUsage(err) {
		err = inv.sources.Locate(err)
	}
	code = fail(sys, err)
	if errors.As(err, new(*client.UnreachableError)) && newcomer(sys, resolver.File.Path) && inv.sources.Of("runtime_url", "BLOOM_RUNTIME_URL") == config.FromDefault {
		fmt.Fprint(sys.Err, firstSteps)
	}
	return code
}

// firstSteps is for those who have set up nothing yet.
const firstSteps = `
Nothing is set up here yet. Start everything on this machine:  bloom up
Then, in another terminal:  bloom run "Say hello in one line."
Is your server elsewhere? Set BLOOM_RUNTIME_URL and BLOOM_API_KEY; see: bloom help settings
`

// newcomer reports whether there is neither a config file nor data nor the address of a server.
func newcomer(sys System, file string) bool {
	_, named := sys.Env("BLOOM_RUNTIME_URL")
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }
	return !named && !there(file) && !there(config.DefaultDataDir(sys.Env))
}

// listen cancels the two contexts on signals.
func (inv *invocation) listen() (stop func()) {
	ctx, first := context.WithCancelCause(context.Background())
	cut, second := context.WithCancelCause(context.Background())
	inv.ctx, inv.cut = ctx, cut
	done := make(chan struct{})
	go func() {
		for _, next := range []context.CancelCauseFunc{first, second, func(error) { os.Exit(ExitInterrupted) }} {
			select {
			case <-inv.Signals:
				next(errInterrupted)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		first(nil)
		second(nil)
	}
}

// fail prints an error and returns its exit code.
func fail(sys System, err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errInterrupted):
		return ExitInterrupted
	case errors.Is(err, errSilent):
		return ExitFailure
	case isUsage(err):
		fmt.Fprintln(sys.Err, "bloom:", clean(err.Error()+whoMayNot(err), true))
		return ExitUsage
	}
	fmt.Fprintln(sys.Err, "bloom:", clean(explain(err)+whoMayNot(err), true))
	if exit := (exitError{}); errors.As(err, &exit) {
		return exit.code
	}
	return ExitFailure
}

// whoMayNot says as whom bloom runs and what to do if a file's permissions are the cause.
func whoMayNot(err error) string {
	var file *fs.PathError
	if !errors.As(err, &file) || !errors.Is(file.Err, fs.ErrPermission) {
		return ""
	}
	who := fmt.Sprint("the user ", os.Getuid())
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	return fmt.Sprintf("\nbloom runs as %s: run it as another user, or change the owner or the mode of the file or its folder.", who)
}
