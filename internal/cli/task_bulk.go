package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// whichTasks selects one task, or all that match.
type whichTasks struct {
	ID         string `arg:"" optional:"" help:"The task's id, its last 8 characters, or @last; without one, all tasks that match the conditions."`
	conditions `group:"Which tasks:"`
	DryRun     bool `name:"dry-run" help:"Only count the tasks that match."`
	Yes        bool `name:"yes" short:"y" help:"Do not ask before changing all tasks that match."`
}

// bulk is an operation on all tasks that match.
type bulk struct {
	verb, done string
	call       func(context.Context, bloom.TasksMatching) (bloom.TasksMatched, error)
}

func (w *whichTasks) matching() bloom.TasksMatching {
	return bloom.TasksMatching{Status: bloom.TaskStatus(w.Status), ContextID: w.Context, AgentSlug: w.Agent, WorkerID: w.Worker, Error: w.Error, Labels: w.Label, Text: w.Query}
}

func (w *whichTasks) check() error {
	conditions := !w.matching().Empty()
	switch {
	case w.ID != "" && (conditions || w.DryRun):
		return usagef("give a task's id or conditions, not both")
	case w.ID == "" && !conditions:
		return usagef("give a task's id, or at least one of --status, --context, --agent, --worker, --error, --label and --query")
	}
	return nil
}

// all changes all tasks that match, after asking for confirmation.
func (w *whichTasks) all(inv *invocation, asJSON bool, b bulk) error {
	m := w.matching()
	m.DryRun = true
	found, err := b.call(inv.ctx, m)
	if err != nil {
		return err
	}
	count := plural(found.Matched, "task")
	if found.Next != "" {
		count = "more than " + count
	}
	switch {
	case w.DryRun && !asJSON:
		_, err = fmt.Fprintf(inv.Out, "%s would be %s.\n", count, b.done)
		return err
	case found.Matched == 0 && !asJSON && found.Next == "":
		_, err = fmt.Fprintf(inv.Out, "No task matches that could be %s.\n", b.done)
		return err
	case !w.DryRun && (found.Matched > 0 || found.Next != ""):
		if err := w.ask(inv, b.verb+" "+count); err != nil {
			return err
		}
		m.DryRun = false
		if found, err = b.call(inv.ctx, m); err != nil {
			return fmt.Errorf("%s of %s %s: %w", thousands(found.Changed), plural(found.Matched, "task"), b.done, err)
		}
	}
	if asJSON {
		return writeJSON(inv.Out, found)
	}
	left := ""
	if n := found.Matched - found.Changed; n > 0 {
		left = fmt.Sprintf(" %s had changed in the meantime.", plural(n, "task"))
	}
	_, err = fmt.Fprintf(inv.Out, "%s %s.%s\n", plural(found.Changed, "task"), b.done, left)
	return err
}

// ask asks the user for confirmation; programs pass --yes.
func (w *whichTasks) ask(inv *invocation, what string) error {
	if w.Yes {
		return nil
	}
	if !inv.InTerminal {
		return usagef("%s? Add --yes to confirm, or --dry-run to count only", what)
	}
	return inv.confirm(what)
}

// confirm asks the person at the terminal.
func (inv *invocation) confirm(what string) error {
	fmt.Fprintf(inv.Err, "%s? [y/N] ", clean(what, false))
	line, err := input(inv, func() (string, error) { return bufio.NewReader(inv.In).ReadString('\n') })
	if errors.Is(err, errInterrupted) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		fmt.Fprintln(inv.Err, "Nothing was changed.")
		return errSilent
	}
	return err
}

// consent is the flag of commands about one thing that ask on a terminal. Programs are not asked.
type consent struct {
	Yes bool `name:"yes" short:"y" help:"Do not ask for confirmation; only a terminal is asked."`
}

func (c consent) ask(inv *invocation, what string) error {
	if c.Yes || !inv.InTerminal {
		return nil
	}
	return inv.confirm(what)
}

// change is an operation on one task, or on all that match.
type change struct {
	bulk
	one      func(context.Context, string) (bloom.Task, error)
	describe func(bloom.Task) string // the outcome for one task
}

func (w *whichTasks) change(inv *invocation, r *remote, of func(*client.Client) change) error {
	if err := w.check(); err != nil {
		return err
	}
	api, err := r.open()
	if err != nil {
		return err
	}
	c := of(api)
	if w.ID == "" {
		if w.Context, err = r.findContext(inv, api, w.Context); err != nil {
			return err
		}
		return w.all(inv, r.JSON, c.bulk)
	}
	if w.ID, err = r.findTask(inv, api, w.ID); err != nil {
		return err
	}
	task, err := c.one(inv.ctx, w.ID)
	if err != nil {
		return err
	}
	if r.JSON {
		return writeJSON(inv.Out, task)
	}
	_, err = fmt.Fprintf(inv.Out, "Task %s %s.\n", task.ID, c.describe(task))
	return err
}

type taskCancelCmd struct {
	remote
	whichTasks
}

func (c *taskCancelCmd) Run(inv *invocation) error {
	return c.change(inv, &c.remote, func(api *client.Client) change {
		return change{bulk{"Cancel", "cancelled", api.CancelMatching}, api.Cancel, func(t bloom.Task) string {
			if t.Status.Terminal() {
				return "is cancelled"
			}
			return "was asked to stop; its worker is ending it"
		}}
	})
}

type taskRequeueCmd struct {
	remote
	whichTasks
}

func (c *taskRequeueCmd) Run(inv *invocation) error {
	return c.change(inv, &c.remote, func(api *client.Client) change {
		return change{bulk{"Requeue", "requeued", api.RequeueMatching}, api.Requeue, func(t bloom.Task) string {
			return "is " + string(t.Status) + " again"
		}}
	})
}
