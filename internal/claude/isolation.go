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

// routes name the variables that decide where claude sends the model's credential and the
// conversation.
var routes = []string{
	"ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_FOUNDRY_BASE_URL",
	"ANTHROPIC_AWS_BASE_URL", "ANTHROPIC_BEDROCK_MANTLE_BASE_URL", "ANTHROPIC_GOOGLE_CLOUD_BASE_URL",
	"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_ANTHROPIC_AWS",
	"CLAUDE_CODE_USE_MANTLE", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", "CLAUDE_CODE_USE_GATEWAY",
	"CLAUDE_CODE_SKIP_BEDROCK_AUTH", "CLAUDE_CODE_SKIP_VERTEX_AUTH", "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
	"CLAUDE_CODE_SKIP_ANTHROPIC_AWS_AUTH", "CLAUDE_CODE_SKIP_MANTLE_AUTH", "CLAUDE_CODE_SKIP_ANTHROPIC_GOOGLE_CLOUD_AUTH",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED",
}

// credentials name the variables with which claude identifies itself to the provider. One of a
// folder would take the place of the worker's, and the provider's refusal would park the worker.
var credentials = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"}

// keptDays is claude's own default of how long it keeps conversations.
const keptDays = 30

// isolation returns settings that a folder's own settings do not override. Messages of other
// sessions are refused, which those of one user could otherwise send, and no scheduled
// prompts are run, which any task could leave in its folder. The model's credential is the
// operator's, and goes where the operator sends it. Conversations, which belong to all contexts,
// are kept as long as the operator says. There is no memory, unless PassEnv leaves it to the
// operator.
//
// With rules, claude asks before it runs what they match.
func (c Config) isolation(ask ...string) string {
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
	for _, name := range credentials {
		_, own := own.Env[name]
		_, piped := descriptorOf[name]
		if !own && (lookup(inherited, name) == "" || piped && !slices.Contains(c.PassEnv, name)) {
			env[name] = "" // a value would be on the command line
		}
	}
	kept := own.CleanupPeriodDays
	if kept <= 0 {
		kept = keptDays
	}
	settings := map[string]any{"crossSessionInbound": "refuse", "apiKeyHelper": own.APIKeyHelper, "proxyAuthHelper": own.ProxyAuthHelper, "cleanupPeriodDays": kept, "env": env}
	if len(ask) > 0 {
		settings["permissions"] = map[string][]string{"ask": ask}
	}
	return string(storable.MustJSON(settings))
}

// maxSettings limits what is read of claude's own settings, in bytes.
const maxSettings = 1 << 20

// inherited names what claude reads in the folders above its own: instructions, agents, commands,
// skills and MCP servers, the settings of a repository, which may name commands, and what hides files
// from a search.
var inherited = []string{"CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", ".claude", ".mcp.json", ".git", ".gitignore", ".ignore", ".rgignore"}

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
	Env               map[string]string `json:"env"`
	APIKeyHelper      string            `json:"apiKeyHelper"`
	ProxyAuthHelper   string            `json:"proxyAuthHelper"`
	CleanupPeriodDays int               `json:"cleanupPeriodDays"`
}

func (c Config) userSettings() (own userSettings) {
	if len(c.SettingSources) > 0 && !slices.Contains(c.SettingSources, "user") {
		return own
	}
	raw, err := readLinked(filepath.Join(c.configDir(), "settings.json"), maxSettings)
	if err != nil || json.Unmarshal(raw, &own) != nil {
		return userSettings{} // claude says what is wrong with it
	}
	return own
}
