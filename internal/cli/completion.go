package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/bloom-runtime/bloom"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// The scripts call the program itself, so they never go out of date. jotaen/kong-completion was not
// used because it shows no help text beside a candidate.
var completionScripts = map[string]string{
	"bash": `# bash completion for bloom; put in ~/.bashrc:  source <(bloom completion bash)
_bloom() {
    local line
    COMPREPLY=()
    while IFS=$'\t' read -r line _; do
        [[ -n $line ]] && COMPREPLY+=("$line")
    done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _bloom bloom
`,
	"zsh": `#compdef bloom
# zsh completion for bloom; put in ~/.zshrc:  source <(bloom completion zsh)
_bloom() {
    local -a found
    local line
    while IFS=$'\t' read -r line help; do
        [[ -n $line ]] && found+=("${line//:/\\:}:${help}")
    done < <("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then _describe 'bloom' found; else _files; fi
}
# Loaded from a folder of the fpath, this file is the function itself.
if [[ ${funcstack[1]} == _bloom ]]; then _bloom "$@"; else compdef _bloom bloom; fi
`,
	"fish": `# fish completion for bloom; put in ~/.config/fish/completions/bloom.fish
function __bloom_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete -- $words[2..-1] 2>/dev/null
end
complete -c bloom -a '(__bloom_complete)'
`,
}

func (c *completionCmd) Run(inv *invocation) error {
	_, err := fmt.Fprint(inv.Out, completionScripts[c.Shell])
	return err
}

// completeCmd is called by the scripts with the words so far, the last one incomplete. It prints
// one candidate per line, followed by a tab and its help.
type completeCmd struct {
	remote
	Words []string `arg:"" optional:"" passthrough:""`
}

func (c *completeCmd) Run(inv *invocation) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	words = splitFlags(words)
	last := ""
	if len(words) > 0 {
		words, last = words[:len(words)-1], words[len(words)-1]
	}
	node, flag := descend(inv.kong.Model.Node, words)
	for _, candidate := range append(candidates(node, flag, last), c.live(inv, liveKind(node, flag, last))...) {
		if strings.HasPrefix(candidate.text, last) {
			fmt.Fprintf(inv.Out, "%s\t%s\n", candidate.text, candidate.style)
		}
	}
	return nil
}

// liveKind returns what the value of a flag or the argument of a command names: a task, a context, an
// artifact, a worker, an agent, or anything else.
func liveKind(node *kong.Node, flag *kong.Flag, last string) string {
	switch {
	case flag != nil:
		return flag.Name
	case strings.HasPrefix(last, "-") || len(node.Positional) != 1 || node.Positional[0].Name != "id":
		return ""
	case node.Name == "logs" && node.Parent.Parent == nil:
		return "task"
	}
	return strings.TrimSuffix(node.Parent.Name, "s")
}

// live returns what the server has of a kind, the newest first; nothing if it does not answer
// within a second. It is asked where the settings outside of the command line say.
func (c *completeCmd) live(inv *invocation, kind string) (out []cell) {
	api, err := c.open()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(inv.ctx, time.Second)
	defer cancel()
	add := func(text, help string) {
		if !slices.ContainsFunc(out, func(c cell) bool { return c.text == text }) {
			out = append(out, cell{clean(text, false), oneLine(help, 48)})
		}
	}
	page := bloom.Page{Limit: 50}
	switch kind {
	case "task", "agent":
		tasks, _, _ := api.Tasks(ctx, bloom.TaskQuery{Page: page})
		for _, t := range tasks {
			if kind == "task" {
				add(t.ID, string(t.Status)+", "+t.Prompt)
			} else {
				add(t.AgentSlug, "")
			}
		}
	case "context":
		contexts, _, _ := api.Contexts(ctx, bloom.ContextQuery{Page: page})
		for _, x := range contexts {
			add(x.ID, plural(x.Tasks, "task"))
		}
	case "artifact":
		artifacts, _, _ := api.Artifacts(ctx, bloom.ArtifactQuery{Page: page})
		for _, a := range artifacts {
			add(a.ID, a.Type+" "+a.Path)
		}
	case "worker":
		workers, _ := api.Workers(ctx)
		for _, w := range workers {
			add(w.ID, string(w.Status))
		}
	}
	if (kind == "task" || kind == "context") && len(out) > 0 {
		if _, err := c.last(inv); err == nil {
			add(last, "the newest that you submitted here")
		}
	}
	return out
}

// splitFlags drops the = between a flag and its value, which bash passes as a word of its own.
func splitFlags(words []string) (split []string) {
	for i, word := range words {
		if word != "=" {
			split = append(split, word)
		} else if i == len(words)-1 {
			split = append(split, "")
		}
	}
	return split
}

// descend follows the words to a command. flag is set when the last word is a flag that takes a
// value.
func descend(node *kong.Node, words []string) (*kong.Node, *kong.Flag) {
	var flag *kong.Flag
	for _, word := range words {
		if flag != nil {
			flag = nil
			continue
		}
		if f := findFlag(node, word); f != nil && !f.IsBool() {
			flag = f
			continue
		}
		for _, child := range node.Children {
			if child.Name == word || slices.Contains(otherNames[child.Name], word) {
				node = child
				break
			}
		}
	}
	return node, flag
}

func findFlag(node *kong.Node, word string) *kong.Flag {
	for n := node; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if word == "--"+f.Name || (f.Short != 0 && word == "-"+string(f.Short)) {
				return f
			}
		}
	}
	return nil
}

// candidates returns candidates, each with its help in place of a style.
func candidates(node *kong.Node, flag *kong.Flag, last string) []cell {
	var out []cell
	switch {
	case flag != nil:
		for _, v := range strings.Split(flag.Enum, ",") {
			if v != "" {
				out = append(out, cell{text: v})
			}
		}
	case strings.HasPrefix(last, "-"):
		for n := node; n != nil; n = n.Parent {
			for _, f := range n.Flags {
				if !f.Hidden {
					out = append(out, cell{"--" + f.Name, f.Help})
				}
			}
		}
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				out = append(out, cell{child.Name, child.Help})
			}
		}
		for _, arg := range node.Positional {
			for _, v := range strings.Split(arg.Enum, ",") {
				if v != "" {
					out = append(out, cell{text: v})
				}
			}
		}
	}
	return out
}
