package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

type contextsCmd struct {
	List   contextsListCmd   `cmd:"" default:"withargs" help:"List contexts, most recently used first."`
	Show   contextsShowCmd   `cmd:"" help:"Show one context."`
	Rename contextsRenameCmd `cmd:"" help:"Call a context something; without a name, by its id again."`
	Pin    contextsPinCmd    `cmd:"" help:"Keep a context at the top of the web application's list."`
	Unpin  contextsUnpinCmd  `cmd:"" help:"Do not keep a context at the top any more."`
	Rm     contextsRmCmd     `cmd:"" help:"Forget a context: its next task starts a new conversation."`
}

type contextsListCmd struct {
	remote
	paging
	Search string `name:"search" placeholder:"TEXT" help:"Only contexts with this in their id or name."`
	Pinned bool   `name:"pinned" help:"Only pinned contexts."`
}

func (c *contextsListCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	contexts, err := take(c.paging, api.AllContexts(inv.ctx, bloom.ContextQuery{Text: c.Search, Pinned: c.Pinned, Page: c.page()}))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, contexts)
	}
	now := time.Now()
	t := newTable("CONTEXT", "NAME", "LAST", "TASKS", "OPEN", "WORKER", "SIZE", "TOKENS", "COST", "LAST USE")
	for _, x := range contexts {
		t.row(oneLine(x.ID, 60), called(x), dash(x.LastStatus), x.Tasks, x.Unfinished, dash(deref(x.WorkerID)), bytesSize(x.Size), thousands(x.Tokens), dollars(x.CostUSD), ago(now, x.LastUsedAt))
	}
	return t.print(inv)
}

// called is what people call a context, with a star if it is pinned.
func called(x bloom.Context) string {
	name := oneLine(x.Name, 40)
	if x.Pinned {
		name = strings.TrimSpace("* " + name)
	}
	return dash(name)
}

func dollars(usd float64) string { return fmt.Sprintf("$%.4f", usd) }

type contextsShowCmd struct {
	remote
	ID string `arg:"" help:"The context's id, its name, the last 8 characters of its id, or @last."`
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
	t.row("name", called(x))
	t.row("last prompt", oneLine(x.LastPrompt, 200))
	t.row("last status", dash(x.LastStatus))
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

// ofContext is a command that changes what people call a context.
type ofContext struct {
	remote
	ID string `arg:"" help:"The context's id, its name, the last 8 characters of its id, or @last."`
}

func (c *ofContext) change(inv *invocation, is string, change func(*client.Client) (bloom.Context, error)) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if c.ID, err = c.findContext(inv, api, c.ID); err != nil {
		return err
	}
	x, err := change(api)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return writeJSON(inv.Out, x)
	}
	_, err = fmt.Fprintln(inv.Out, clean(x.ID+" is "+is, false))
	return err
}

type contextsRenameCmd struct {
	ofContext
	Name string `arg:"" optional:"" help:"What to call it."`
}

func (c *contextsRenameCmd) Run(inv *invocation) error {
	is := "called " + c.Name
	if c.Name == "" {
		is = "called by its id again"
	}
	return c.change(inv, is, func(api *client.Client) (bloom.Context, error) { return api.NameContext(inv.ctx, c.ID, c.Name) })
}

type contextsPinCmd struct{ ofContext }

func (c *contextsPinCmd) Run(inv *invocation) error {
	return c.change(inv, "pinned", func(api *client.Client) (bloom.Context, error) { return api.PinContext(inv.ctx, c.ID, true) })
}

type contextsUnpinCmd struct{ ofContext }

func (c *contextsUnpinCmd) Run(inv *invocation) error {
	return c.change(inv, "not pinned any more", func(api *client.Client) (bloom.Context, error) { return api.PinContext(inv.ctx, c.ID, false) })
}

type contextsRmCmd struct {
	remote
	consent
	ID string `arg:"" help:"The context's id, its name, the last 8 characters of its id, or @last."`
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
	_, err = fmt.Fprintf(inv.Out, "%s is forgotten. Workers delete their copies when they next ask for tasks.\n", clean(c.ID, false))
	return err
}
