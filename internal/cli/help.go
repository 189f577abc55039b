package cli

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bloom-runtime/bloom/internal/config"
)

// pages has what the flags of each command cannot say, and its examples.
//
//go:embed pages.txt
var pages string

// addPages gives the commands their pages.
func addPages(root *kong.Node) {
	for page := range strings.SplitSeq("\n"+pages, "\n# ") {
		path, body, _ := strings.Cut(page, "\n")
		node := root
		for name := range strings.FieldsSeq(path) {
			node = child(node, name)
		}
		if node.Parent == nil || node.Parent.Name != "help" {
			body = firstExample.ReplaceAllString(body, "${1}Examples:\n\n\t")
		}
		node.Detail = strings.TrimSpace(body)
	}
}

var firstExample = regexp.MustCompile(`\A((?s:.*?\n)??)\t`)

// helpCmd has the topics, whose text is in the pages.
type helpCmd struct {
	Settings  settingsTopic `cmd:"" help:"Where settings come from, and those of all commands."`
	IDs       topic         `cmd:"" name:"ids" help:"How to name tasks, contexts and artifacts."`
	Output    topic         `cmd:"" help:"Tables, JSON, colour and questions."`
	ExitCodes topic         `cmd:"" name:"exit-codes" help:"What the exit codes mean."`
}

type topic struct{}

func (topic) Run(inv *invocation) error { return inv.kong.PrintUsage(false) }

type settingsTopic struct {
	topic
	config.Client `group:"Server:"`
}

// elsewhere reports whether a flag is left out of a command's page, because bloom help settings, or
// the page that the command's own names, has it.
func elsewhere(node *kong.Node, f *kong.Flag, global bool) bool {
	switch {
	case node.Name == "settings":
		return false
	case global:
		return node.Parent != nil || f.Name != "help" && f.Name != "version"
	case node.Name == "up":
		return f.Group != nil && f.Group.Key != "Membridge:"
	}
	return node.Name != "worker" && slices.Contains([]string{"ca-file", "client-cert", "client-key"}, f.Name)
}

// byServer puts the flags for the server behind those of the command itself.
func byServer(node *kong.Node, f *kong.Flag) int {
	if f.Group != nil && f.Group.Key == "Server:" && node.Name != "worker" {
		return 1
	}
	return 0
}

// printHelp prints the page of a command: a sentence, the usage, examples, its own flags, and where
// the other flags are.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	root, node := ctx.Model.Node, ctx.Selected()
	dropNames(root)
	if node == nil {
		node = root
	}
	options.NoAppSummary = node.Parent != nil && node.Parent.Name == "help"
	fmt.Fprintf(ctx.Stdout, "%s\n", text.WrapSoft(node.Help, 80))
	if !options.NoAppSummary {
		fmt.Fprintln(ctx.Stdout)
	}
	node.Help = ""
	for _, f := range root.Flags {
		f.Hidden = f.Hidden || elsewhere(node, f, true)
		if node != root {
			f.Group = &kong.Group{Key: "global", Title: "Flags of every command:"}
		}
	}
	if node != root {
		for n := node; n != root; n = n.Parent {
			n.Group = nil // else it is the heading of the commands
		}
		for _, f := range node.Flags {
			f.Hidden = f.Hidden || elsewhere(node, f, false)
		}
		slices.SortStableFunc(node.Flags, func(a, b *kong.Flag) int { return byServer(node, a) - byServer(node, b) })
		node.Flags, root.Flags = append(node.Flags, root.Flags...), nil
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil || options.NoAppSummary {
		return err
	}
	_, err := io.WriteString(ctx.Stdout, "\nFor --config, --no-color, --log-level and the other flags: bloom help settings\n")
	return err
}
