package claude

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// agent is what an agent_slug came to: an option, a text to append to the
// system prompt, or neither.
type agent struct {
	option string // the name for --agent
	system string // the text of the operator's file
}

// safeSlug is what may become a file's name or an option's value.
var safeSlug = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

const (
	maxAgentFile  = 256 << 10 // bytes read of a file
	maxAgentFiles = 5_000     // entries of a folder of agents that are looked at
)

// findAgent looks the slug up among claude's own agent files, then among the
// operator's. An unknown slug is no error: the task runs plain.
func (c Config) findAgent(ctx context.Context, slug, workdir string) (agent, error) {
	if !safeSlug.MatchString(slug) {
		return agent{}, nil
	}
	for _, dir := range c.agentDirs(workdir) {
		if knowsAgent(ctx, dir, slug) {
			return agent{option: slug}, nil
		}
	}
	if c.AgentsDir == "" {
		return agent{}, nil
	}
	text, err := readBelow(c.AgentsDir, slug+".md", maxAgentFile)
	if errors.Is(err, fs.ErrNotExist) {
		return agent{}, nil
	}
	_, body := splitFrontMatter(text)
	return agent{system: strings.TrimSpace(body)}, err
}

// agentDirs are the folders where claude finds agents, given whose settings it
// reads.
func (c Config) agentDirs(workdir string) []string {
	var dirs []string
	reads := func(source string) bool {
		return len(c.SettingSources) == 0 || slices.Contains(c.SettingSources, source)
	}
	if reads("project") {
		dirs = append(dirs, filepath.Join(workdir, ".claude", "agents"))
	}
	if reads("user") {
		dirs = append(dirs, filepath.Join(c.configDir(), "agents"))
	}
	return dirs
}

// knowsAgent reports whether a file below dir defines an agent of that name.
func knowsAgent(ctx context.Context, dir, name string) bool {
	found := false
	eachAgentFile(ctx, dir, func(_, text string) bool {
		front, _ := splitFrontMatter(text)
		found = frontMatterName(front) == name
		return !found
	})
	return found
}

// eachAgentFile calls see with the files below dir that may define an agent, until it
// answers that it has seen enough. A file that cannot be read defines nothing.
func eachAgentFile(ctx context.Context, dir string, see func(file, text string) (more bool)) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return // also a pipe, which must not be opened
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	w := walker{ctx: ctx, root: root, left: maxAgentFiles}
	_ = w.walk(".", func(string) bool { return true }, func(file string) error {
		if path.Ext(file) != ".md" {
			return nil
		}
		if text, _, err := readLimited(root, file, maxAgentFile); err == nil && !see(file, text) {
			return fs.SkipAll
		}
		return nil
	})
}

// How many agents a worker reports, and how many bytes their names may have together.
const (
	maxAgents     = 256
	maxAgentNames = bloom.MaxWorkerLists / 2 // the rest is for labels
)

// Agents lists the names that agent_slug may have here to mean more than a plain run:
// of claude's own agent files and of the operator's, sorted. What a task's own folder
// defines in other ways is not among them.
func (c Config) Agents(ctx context.Context) []string {
	names := map[string]bool{}
	for _, dir := range c.agentDirs(c.Workdir) {
		eachAgentFile(ctx, dir, func(_, text string) bool {
			front, _ := splitFrontMatter(text)
			names[frontMatterName(front)] = true
			return true
		})
	}
	if c.AgentsDir != "" {
		eachAgentFile(ctx, c.AgentsDir, func(file, _ string) bool {
			if path.Dir(file) == "." {
				names[strings.TrimSuffix(file, ".md")] = true
			}
			return true
		})
	}
	sorted := slices.Sorted(maps.Keys(names))
	sorted = slices.DeleteFunc(sorted, func(name string) bool { return !safeSlug.MatchString(name) || len(name) > 128 })
	sorted = sorted[:min(len(sorted), maxAgents)]
	for bloom.ListBytes(sorted) > maxAgentNames {
		sorted = sorted[:len(sorted)-1]
	}
	return sorted
}

// readBelow reads a file through os.Root, so that no name leaves dir.
func readBelow(dir, name string, limit int) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, _, err := readLimited(root, name, limit)
	return text, err
}

// splitFrontMatter parts the block between two --- lines from the rest.
func splitFrontMatter(text string) (front, body string) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text
	}
	front, body, ok = strings.Cut(rest, "\n---")
	if !ok {
		return "", text
	}
	_, body, _ = strings.Cut(body, "\n")
	return front, body
}

func frontMatterName(front string) string {
	for line := range strings.SplitSeq(front, "\n") {
		if value, ok := strings.CutPrefix(line, "name:"); ok {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}
