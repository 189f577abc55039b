package claude

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom/internal/storable"
)

// toolRule says whether tasks may use one of claude's own tools.
type toolRule struct {
	denied bool
	why    string
}

// toolRules classifies claude's own tools, up to version 2.1.329. A tool that is not in the
// table is denied. docs/guides/permissions-and-limits.md has the table, too.
var toolRules = map[string]toolRule{
	"Agent":                  {false, "subagents run in the task's process and obey the same rules"},
	"Bash":                   {false, "the permission mode decides; what is left running is ended"},
	"BashOutput":             {false, "reads the output of the session's own commands"},
	"Edit":                   {false, "the permission mode decides"},
	"ExitPlanMode":           {false, "part of the permission mode plan"},
	"Glob":                   {false, "the permission mode decides"},
	"Grep":                   {false, "the permission mode decides"},
	"KillShell":              {false, "ends the session's own commands"},
	"LS":                     {false, "the permission mode decides"},
	"LSP":                    {false, "asks a language server, which ends with the process"},
	"ListMcpResourcesTool":   {false, "uses MCP servers that the operator configured"},
	"MultiEdit":              {false, "the permission mode decides"},
	"NotebookEdit":           {false, "the permission mode decides"},
	"NotebookRead":           {false, "the permission mode decides"},
	"PowerShell":             {false, "the permission mode decides; what is left running is ended"},
	"Read":                   {false, "the permission mode decides"},
	"ReadMcpResourceDirTool": {false, "uses MCP servers that the operator configured"},
	"ReadMcpResourceTool":    {false, "uses MCP servers that the operator configured"},
	"ReportFindings":         {false, "only prints"},
	"Skill":                  {false, "reads instructions, whose tools obey the same rules"},
	"StructuredOutput":       {false, "only prints"},
	"SubagentHandback":       {false, "a subagent's answer to its own task"},
	"Task":                   {false, "an older name of Agent"},
	"TaskCreate":             {false, "the session's own list of steps"},
	"TaskGet":                {false, "the session's own list of steps"},
	"TaskList":               {false, "the session's own list of steps"},
	"TaskOutput":             {false, "reads the output of the session's own commands"},
	"TaskStop":               {false, "ends the session's own commands"},
	"TaskUpdate":             {false, "the session's own list of steps"},
	"TodoWrite":              {false, "the session's own list of steps"},
	"ToolSearch":             {false, "loads descriptions of tools, which obey the same rules"},
	"WaitForMcpServers":      {false, "uses MCP servers that the operator configured"},
	"WebFetch":               {false, "the permission mode decides"},
	"WebSearch":              {false, "the permission mode decides"},
	"Write":                  {false, "the permission mode decides"},

	"Artifact":                 {true, "publishes on the operator's account"},
	"AskUserQuestion":          {true, "nobody can answer, unless policy.questions lets a person be asked"},
	"ClaudeDesign":             {true, "uses the operator's account"},
	"CronCreate":               {true, "its work starts after the task, in any process of the folder"},
	"CronDelete":               {true, "changes the schedules of others"},
	"CronList":                 {true, "shows the schedules of others"},
	"EndConversation":          {true, "closes the context's session for its next tasks"},
	"EnterPlanMode":            {true, "nobody can approve a plan"},
	"EnterWorktree":            {true, "leaves the task's folder, where its session and files are looked for"},
	"ExitWorktree":             {true, "removes folders that others may use"},
	"ListAgents":               {true, "shows the sessions of other tasks, workers and the operator"},
	"Monitor":                  {true, "its events start turns after the task"},
	"OfferChromeSetup":         {true, "nobody can answer"},
	"Projects":                 {true, "uses the operator's account"},
	"PushNotification":         {true, "notifies the operator's devices"},
	"ReadNotifications":        {true, "reads the operator's account"},
	"RemoteTrigger":            {true, "starts work elsewhere that outlives the task"},
	"ScheduleWakeup":           {true, "starts a turn after the task"},
	"SendFeedback":             {true, "sends the conversation to the vendor"},
	"SendMessage":              {true, "starts turns in the sessions of other tasks, workers and the operator"},
	"SendUserFile":             {true, "nobody would receive it"},
	"SendUserMessage":          {true, "nobody would receive it"},
	"SetGoal":                  {true, "changes how the context's next tasks end"},
	"ShareOnboardingGuide":     {true, "nobody would receive it"},
	"ShowOnboardingRolePicker": {true, "nobody can answer"},
	"TeamCreate":               {true, "starts sessions that outlive the task"},
	"TeamDelete":               {true, "ends the sessions of others"},
	"Workflow":                 {true, "its agents run after the turn, outside the task's limits"},
	"propose_skills":           {true, "nobody can answer"},
}

// toolPolicy decides which tools claude's processes get. It is safe for concurrent use.
type toolPolicy struct {
	config Config

	mu      sync.Mutex
	unknown map[string]bool // denied tools that are not in toolRules

	questions bool // claude may ask people questions
}

// denied reports whether no task may use the tool. Tools of MCP servers have the names
// mcp__SERVER__TOOL: the operator decides about them with the servers. The operator may also
// allow a tool that the table lacks, but none that it denies.
func (p *toolPolicy) denied(tool string) bool {
	if p.questions && tool == askTool {
		return false
	}
	rule, known := toolRules[tool]
	return rule.denied || !known && !strings.HasPrefix(tool, "mcp__") && !slices.ContainsFunc(p.config.AllowedTools, func(allowed string) bool {
		return toolName(allowed) == tool
	})
}

// toolName returns the tool of a rule such as "Bash(git *)".
func toolName(rule string) string {
	name, _, _ := strings.Cut(rule, "(")
	return strings.TrimSpace(name)
}

// option returns claude's option with everything that it must not use.
func (p *toolPolicy) option() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := slices.Collect(maps.Keys(p.unknown))
	for name, rule := range toolRules {
		if rule.denied && p.denied(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return "--disallowed-tools=" + strings.Join(slices.Concat(p.config.DisallowedTools, names), ",")
}

// Bounds of the tools that are remembered: a task can print to claude's output, and every later
// claude is started with their names.
const (
	maxToolName = 64
	maxUnknown  = 100
)

var plainTool = regexp.MustCompile("^[A-Za-z][A-Za-z0-9_]{0,63}$")

// offered returns the denied ones of the tools that a process offers. Processes that start
// later do not offer those whose names are plain.
func (p *toolPolicy) offered(tools []string) (denied []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tool := range tools {
		if !p.denied(tool) {
			continue
		}
		if denied = append(denied, storable.Cut(tool, maxToolName)); len(denied) > maxUnknown {
			break
		}
		if _, known := toolRules[tool]; !known && !p.unknown[tool] && plainTool.MatchString(tool) && len(p.unknown) < maxUnknown {
			p.unknown[tool] = true
			p.config.Log.Warn("claude has a tool that this version of bloom does not know; tasks may not use it, unless --allowed-tool names it", "tool", tool)
		}
	}
	return denied
}
