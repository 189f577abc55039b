package claude

import (
	"context"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// baseArgs are claude's options for every task. Values are joined with = where
// they come from outside, so that none can be an option.
func (r *Runner) baseArgs(ctx context.Context, path string) []string {
	c := r.config
	args := []string{
		"--permission-mode=" + permissionMode(c, func(o string) bool { return r.has(ctx, path, o) }),
		"--disallowed-tools=" + strings.Join(append([]string{"AskUserQuestion"}, c.DisallowedTools...), ","),
	}
	if len(c.AllowedTools) > 0 {
		args = append(args, "--allowed-tools="+strings.Join(c.AllowedTools, ","))
	}
	if c.Model != "" {
		args = append(args, "--model="+c.Model)
	}
	if len(c.SettingSources) > 0 {
		args = append(args, "--setting-sources="+strings.Join(c.SettingSources, ","))
	}
	if c.StrictMCPConfig {
		args = append(args, "--strict-mcp-config")
	}
	for _, file := range c.MCPConfig {
		args = append(args, "--mcp-config="+file)
	}
	if r.has(ctx, path, "--permission-prompts") {
		args = append(args, "--permission-prompts=none")
	}
	// A newer claude keeps a session's first system prompt; ours changes with
	// the task's agent and format.
	if r.has(ctx, path, "--system-prompt-snapshot") {
		args = append(args, "--system-prompt-snapshot=off")
	}
	return args
}

// permissionMode translates the mode whose name changed between versions.
func permissionMode(c Config, has func(string) bool) string {
	if c.PermissionMode == "default" && has(`"manual"`) {
		return "manual"
	}
	if c.PermissionMode == "manual" && !has(`"manual"`) {
		return "default"
	}
	return c.PermissionMode
}

// persona is the agent and what is appended to the system prompt.
func (t *taskRun) persona(ctx context.Context) []string {
	found, err := t.config.findAgent(ctx, t.task.AgentSlug, t.workdir)
	if err != nil {
		t.config.Log.Error("read agent file", "agent", t.task.AgentSlug, "err", err)
		t.emit.warn("agent_unreadable", "the worker's file of this agent cannot be read; the task runs without it")
	}
	var args, system []string
	if found.option != "" {
		args = append(args, "--agent="+found.option)
	}
	if found.system != "" {
		system = append(system, found.system)
	}
	if t.task.DesiredFormat == bloom.FormatJSON {
		system = append(system, jsonInstruction)
	}
	if len(system) > 0 {
		args = append(args, "--append-system-prompt="+strings.Join(system, "\n\n"))
	}
	return args
}
