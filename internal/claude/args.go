package claude

import (
	"context"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// baseArgs returns claude's options for every task. Values that come from outside are
// joined with =, so that none is taken for an option.
func (r *Runner) baseArgs(ctx context.Context, path string) []string {
	c := r.config
	args := []string{
		"--permission-mode=" + permissionMode(c, func(o string) bool { return r.has(ctx, path, o) }),
		"--settings=" + c.isolation(),
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
	// Newer versions keep a session's first system prompt, but it changes with the task's
	// agent and format.
	if r.has(ctx, path, "--system-prompt-snapshot") {
		args = append(args, "--system-prompt-snapshot=off")
	}
	return args
}

// permissionMode translates the mode that was renamed between versions.
func permissionMode(c Config, has func(string) bool) string {
	if c.PermissionMode == "default" && has(`"manual"`) {
		return "manual"
	}
	if c.PermissionMode == "manual" && !has(`"manual"`) {
		return "default"
	}
	return c.PermissionMode
}

// agentArgs returns the options for the agent and the appended system prompt.
func (t *taskRun) agentArgs(ctx context.Context) []string {
	found, err := t.config.findAgent(ctx, t.task.AgentSlug, t.workdir)
	if err != nil {
		t.config.Log.Error("an agent file cannot be read", "agent", t.task.AgentSlug, "error", err)
		t.emit.warn("agent_unreadable", "the worker's file for this agent cannot be read; running without it")
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
