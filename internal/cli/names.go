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
	"show": {"get"}, "list": {"ls"}, "rm": {"remove", "delete", "forget", "revoke"}, "licenses": {"license"},
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
		if !strings.HasPrefix(next, "-") && child(child(root, "help"), next) == nil {
			return append(slices.Clone(args[1:]), "--help")
		}
	case "tasks":
		if next == "" || strings.HasPrefix(next, "-") && next != "-h" && next != "--help" {
			return append([]string{"task", "list"}, args[1:]...)
		}
	case "worker":
		if child(child(root, "workers"), next) != nil {
			return append([]string{"workers"}, args[1:]...)
		}
	}
	return args
}

// child returns the command of a name below another; nil if there is none.
func child(node *kong.Node, name string) *kong.Node {
	i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name || slices.Contains(n.Aliases, name) })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}
