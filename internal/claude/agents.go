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

// agent is what an agent_slug resolves to: an option, a text to append to the system
// prompt, or neither.
type agent struct {
	option string // the name for --agent
	system string // the text of the operator's file
}

// safeSlug matches slugs that may be used as a file name and as an option's value.
var safeSlug = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

const (
	maxAgentFile  = 256 << 10 // bytes read of a file
	maxAgentFiles = 5_000     // entries examined in a folder of agents
)

// findAgent searches claude's own agent files for the slug, then the operator's. An
// unknown slug is not an error: the task runs without an agent.
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

// agentDirs returns the folders in which claude finds agents with these setting sources.
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

// eachAgentFile calls see with each file below dir that may define an agent, until it
// returns false. Unreadable files are skipped.
func eachAgentFile(ctx context.Context, dir string, see func(file, text string) (more bool)) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return // opening a pipe would block
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

// Limits of the agents that a worker reports: their number, and the bytes of all names.
const (
	maxAgents     = 256
	maxAgentNames = bloom.MaxWorkerLists / 2 // the rest is for labels
)

// Agents returns the sorted names of the agents in claude's own agent files and the
// operator's.
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

// readBelow reads a file in dir through os.Root, so that no name leads outside.
func readBelow(dir, name string, limit int) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, _, err := readLimited(root, name, limit)
	return text, err
}

// splitFrontMatter separates the block between two --- lines from the rest.
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
