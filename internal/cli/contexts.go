package cli

import (
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
)

type contextsCmd struct {
	List contextsListCmd `cmd:"" default:"withargs" help:"List contexts, most recently used first."`
	Show contextsShowCmd `cmd:"" help:"Show one context."`
	Rm   contextsRmCmd   `cmd:"" help:"Forget a context: its next task starts a new conversation."`
}

type contextsListCmd struct {
	remote
	paging
}

func (c *contextsListCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	contexts, err := take(c.paging, api.AllContexts(inv.ctx, bloom.ContextQuery{Page: c.page()}))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, contexts)
	}
	now := time.Now()
	t := newTable("CONTEXT", "TASKS", "OPEN", "WORKER", "SIZE", "TOKENS", "COST", "LAST USE")
	for _, x := range contexts {
		t.row(oneLine(x.ID, 60), x.Tasks, x.Unfinished, dash(deref(x.WorkerID)), bytesSize(x.Size), thousands(x.Tokens), dollars(x.CostUSD), ago(now, x.LastUsedAt))
	}
	return t.print(inv)
}

func dollars(usd float64) string { return fmt.Sprintf("$%.4f", usd) }

type contextsShowCmd struct {
	remote
	ID string `arg:"" help:"The context's id, its last 8 characters, or @last."`
}

func (c *contextsShowCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.ID, err = c.findContext(inv, api, c.ID); err != nil {
		return err
	}
	x, err := api.Context(inv.ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, x)
	}
	now := time.Now()
	t := newTable("FIELD", "VALUE")
	t.row("context", x.ID)
	t.row("tasks", fmt.Sprintf("%s (%s unfinished)", thousands(x.Tasks), thousands(x.Unfinished)))
	t.row("worker", dash(deref(x.WorkerID)))
	t.row("session", dash(deref(x.SessionID)))
	t.row("transcript", bytesSize(x.Size))
	if x.Workspace > 0 {
		t.row("working folder", bytesSize(x.Workspace))
	}
	t.row("tokens", thousands(x.Tokens))
	t.row("cost", dollars(x.CostUSD))
	t.row("first use", ago(now, x.CreatedAt))
	t.row("last use", ago(now, x.LastUsedAt))
	return t.print(inv)
}

type contextsRmCmd struct {
	remote
	consent
	ID string `arg:"" help:"The context's id, its last 8 characters, or @last."`
}

func (c *contextsRmCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.ID, err = c.findContext(inv, api, c.ID); err != nil {
		return err
	}
	if err := c.ask(inv, "Forget the context "+c.ID+" and its working folder"); err != nil {
		return err
	}
	if err := api.ForgetContext(inv.ctx, c.ID); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, map[string]any{"forgotten": true, "id": c.ID})
	}
	_, err = fmt.Fprintf(inv.Out, "%s was forgotten; workers forget it with their next claims.\n", clean(c.ID, false))
	return err
}
