package cli

import (
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

type retentionCmd struct {
	database
	config.Retention
	JSON bool `name:"json" help:"Print JSON for programs."`
}

// Run shows what would be removed. Only servers remove data.
func (c *retentionCmd) Run(inv *invocation) error {
	if err := c.Finish(); err != nil {
		return usage(err)
	}
	old, err := app.Old(inv.ctx, c.DataDir, string(c.DatabaseURL), c.Keep())
	if err != nil {
		return interrupted(inv, err)
	}
	if c.JSON {
		return writeJSON(inv.Out, struct {
			Tasks    string           `json:"tasks"`
			Events   string           `json:"events"`
			Audit    string           `json:"audit"`
			Contexts string           `json:"contexts"`
			Old      contract.Removed `json:"old"`
		}{c.RetentionTasks.String(), c.RetentionEvents.String(), c.RetentionAudit.String(), c.RetentionContexts.String(), old})
	}
	tasks, events := kept(c.RetentionTasks), kept(c.RetentionEvents)
	if c.RetentionEvents == 0 || c.RetentionTasks != 0 && c.RetentionTasks < c.RetentionEvents {
		events = tasks
	}
	t := newTable("WHAT", "KEPT", "OLDER NOW")
	t.row("tasks that have ended", tasks, thousands(old.Tasks))
	t.row("  their leases", tasks, thousands(old.Leases))
	t.row("  their results", tasks, thousands(old.Results))
	t.row("  their artifacts", tasks, thousands(old.Artifacts))
	t.row("  their events", events, thousands(old.Events))
	t.row("audit entries", kept(c.RetentionAudit), thousands(old.Audit))
	t.row("contexts", kept(c.RetentionContexts), thousands(old.Contexts))
	if err := t.print(inv); err != nil {
		return err
	}
	inv.say("Nothing was removed. Servers remove old data every few minutes, according to their own settings.")
	return nil
}

func kept(a config.Age) string {
	if a == 0 {
		return "forever"
	}
	return a.String()
}
