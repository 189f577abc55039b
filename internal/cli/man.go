package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/bloom-runtime/bloom/internal/config"
)

// manCmd prints the manual page, in the macros of man(7). mango-kong was not used: it has neither
// groups of flags nor their defaults, and repeats the flags of all commands for each.
type manCmd struct{}

func (c *manCmd) Run(inv *invocation) error {
	root := inv.kong.Model.Node
	var b strings.Builder
	fmt.Fprintf(&b, ".TH BLOOM 1 \"\" \"BLOOM Runtime\" \"User Commands\"\n.ad l\n.SH NAME\nbloom \\- a durable runtime for LLM agent tasks\n")
	b.WriteString(".SH SYNOPSIS\n.B bloom\n.I command\n[\\fIflags\\fR]\n.SH COMMANDS\n")
	for _, node := range root.Leaves(true) {
		if node.Parent.Name != "help" {
			fmt.Fprintf(&b, ".SS %s\n", roff("bloom "+node.Summary()))
			manPage(&b, node)
		}
	}
	for _, node := range child(root, "help").Children {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(roff(node.Name)))
		manPage(&b, node)
	}
	b.WriteString(".SH OPTIONS OF EVERY COMMAND\n")
	manFlags(&b, root, root.Flags)
	// What is a default on this machine is none on the reader's.
	_, err := io.WriteString(inv.Out, strings.NewReplacer(roff(config.DefaultDataDir(inv.Env)), "~/.local/share/bloom", "default "+roff(inv.Hostname)+",", "default: the host name,").Replace(b.String()))
	return err
}

// manPage writes what the page of a command or a topic says.
func manPage(b *strings.Builder, node *kong.Node) {
	fmt.Fprintln(b, roff(node.Help))
	for part := range strings.SplitSeq(node.Detail, "\n\n") {
		if code := strings.ReplaceAll(part, "\n\t", "\n"); strings.HasPrefix(code, "\t") {
			fmt.Fprintf(b, ".PP\n.RS 4\n.nf\n%s\n.fi\n.RE\n", roff(code[1:]))
		} else if part != "" {
			fmt.Fprintf(b, ".PP\n%s\n", roff(part))
		}
	}
	for _, arg := range node.Positional {
		fmt.Fprintf(b, ".TP\n.I %s\n%s\n", roff(arg.Summary()), roff(describeValue(arg)))
	}
	manFlags(b, node, node.Flags)
}

func manFlags(b *strings.Builder, node *kong.Node, flags []*kong.Flag) {
	for _, f := range flags {
		// Those of the server are in the topic.
		if !f.Hidden && !elsewhere(node, f, false) && (byServer(node, f) == 0 || node.Name == "settings") {
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(f.String()), roff(describeValue(f.Value)))
		}
	}
}

// roff escapes text.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
	return lineStart.ReplaceAllString(text, `\&$1`)
}

// lineStart matches what would be a request at the start of a line.
var lineStart = regexp.MustCompile(`(?m)^([.'])`)
