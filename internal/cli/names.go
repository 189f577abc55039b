package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// otherNames are further names of commands, by which people look for them. The help shows one
// name of each.
var otherNames = map[string][]string{
	"task": {"tasks"}, "leases": {"lease"}, "artifacts": {"artifact"}, "contexts": {"context"}, "keys": {"key"}, "secrets": {"secret"},
	"get": {"show"}, "show": {"get"}, "list": {"ls"},
	"remove": {"rm", "delete", "forget"}, "forget": {"rm", "delete", "remove"}, "revoke": {"rm", "delete", "remove"},
}

// addNames lets commands have their other names, unless another command has it.
func addNames(node *kong.Node) {
	for _, child := range node.Children {
		for _, name := range otherNames[child.Name] {
			if !slices.ContainsFunc(node.Children, func(n *kong.Node) bool { return n.Name == name }) {
				child.Aliases = append(child.Aliases, name)
			}
		}
		addNames(child)
	}
}

// dropNames removes the other names, which the parser would print behind the name.
func dropNames(node *kong.Node) {
	for _, child := range node.Children {
		child.Aliases = nil
		dropNames(child)
	}
}

// meant returns the command line with what people write instead: "help task run", "tasks" for the
// list, and "worker list", where worker is a command of its own.
func meant(args []string, root *kong.Node) []string {
	if len(args) == 0 {
		return args
	}
	next := ""
	if len(args) > 1 {
		next = args[1]
	}
	switch args[0] {
	case "help":
		return append(slices.Clone(args[1:]), "--help")
	case "tasks":
		if next == "" || strings.HasPrefix(next, "-") && next != "-h" && next != "--help" {
			return append([]string{"task", "list"}, args[1:]...)
		}
	case "worker":
		i := slices.IndexFunc(root.Children, func(n *kong.Node) bool { return n.Name == "workers" })
		if slices.ContainsFunc(root.Children[i].Children, func(n *kong.Node) bool { return n.Name == next || slices.Contains(n.Aliases, next) }) {
			return append([]string{"workers"}, args[1:]...)
		}
	}
	return args
}

// printHelp prints a command's own flags before those of all commands.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	root := ctx.Model.Node
	dropNames(root)
	if node := ctx.Selected(); node != nil {
		for _, f := range root.Flags {
			f.Group = &kong.Group{Key: "global", Title: "Flags of every command:"}
		}
		for _, f := range node.Flags {
			f.Hidden = f.Hidden || node.Name == "up" && f.Group != nil && f.Group.Key != "Membridge:" // as its help says
		}
		node.Flags, root.Flags = append(node.Flags, root.Flags...), nil
	}
	return kong.DefaultHelpPrinter(options, ctx)
}
