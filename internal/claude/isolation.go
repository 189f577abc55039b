package claude

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom/internal/storable"
)

// noMemory switches off claude's memory, which belongs to a folder: one context's words would
// reach the next.
const noMemory = "CLAUDE_CODE_DISABLE_AUTO_MEMORY"

// routes name the variables that decide where claude sends the model's credential.
var routes = []string{
	"ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_FOUNDRY_BASE_URL",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED",
}

// isolation returns settings that a folder's own settings do not override. Messages of other
// sessions are refused, which those of one user could otherwise send, and no scheduled
// prompts are run, which any task could leave in its folder. The model's credential goes where the
// operator sends it. There is no memory, unless PassEnv leaves it to the operator.
func (c Config) isolation() string {
	env := map[string]string{"CLAUDE_CODE_DISABLE_CRON": "1"}
	if !slices.Contains(c.PassEnv, noMemory) {
		env[noMemory] = "1"
	}
	own, inherited := c.userSettings(), c.environment()
	for _, name := range routes {
		value, set := own.Env[name]
		if !set {
			value = lookup(inherited, name)
		}
		if !strings.Contains(value, "@") { // a password is not for the command line, which everyone can read
			env[name] = value
		}
	}
	return string(storable.MustJSON(map[string]any{"crossSessionInbound": "refuse", "apiKeyHelper": own.APIKeyHelper, "env": env}))
}

// inherited names what claude reads in the folders above its own: instructions, agents, commands,
// skills and MCP servers, and the settings of a repository, which may name commands.
var inherited = []string{"CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", ".claude", ".mcp.json", ".git"}

// setInheritedAside renames what a task has left in the folder of the contexts' folders, where it
// would be part of every context, and returns the names.
func (c Config) setInheritedAside() (names []string, err error) {
	if !c.OnlyContexts {
		return nil, nil
	}
	for _, name := range inherited {
		path := filepath.Join(c.Workdir, name)
		if _, err := os.Lstat(path); err != nil || path == c.configDir() {
			continue
		}
		aside := path + ".aside-" + c.Clock.Now().UTC().Format("20060102T150405.000")
		if err := os.Rename(path, aside); err != nil {
			return names, err
		}
		c.Log.Warn("set aside what claude would read for every context", "path", path, "aside", aside)
		names = append(names, name)
	}
	return names, nil
}

// userSettings are what counts of the operator's own settings of claude. Its variables win over the
// environment.
type userSettings struct {
	Env          map[string]string `json:"env"`
	APIKeyHelper string            `json:"apiKeyHelper"`
}

func (c Config) userSettings() (own userSettings) {
	if len(c.SettingSources) > 0 && !slices.Contains(c.SettingSources, "user") {
		return own
	}
	raw, err := os.ReadFile(filepath.Join(c.configDir(), "settings.json"))
	if err != nil || json.Unmarshal(raw, &own) != nil {
		return userSettings{} // claude says what is wrong with it
	}
	return own
}
