package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

type approvalsCmd struct {
	List  approvalsListCmd  `cmd:"" default:"withargs" help:"List what Claude asks."`
	Show  approvalsShowCmd  `cmd:"" help:"Show one request."`
	Allow approvalsAllowCmd `cmd:"" help:"Allow a call, or answer a question."`
	Deny  approvalsDenyCmd  `cmd:"" help:"Deny a call."`
}

type approvalsListCmd struct {
	remote
	All  bool   `name:"all" help:"List decided ones as well."`
	Task string `name:"task" placeholder:"ID" help:"Only those of this task."`
}

func (c *approvalsListCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	q := bloom.ApprovalQuery{Status: bloom.ApprovalPending, TaskID: c.Task, Page: bloom.Page{Limit: bloom.DefaultPageSize}}
	if c.All {
		q.Status = ""
	}
	list, _, err := api.Approvals(inv.ctx, q)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(inv.Err, "Nothing waits for a decision.")
		return nil
	}
	now := time.Now()
	t := newTable("ID", "STATUS", "ASKED", "CONTEXT", "TOOL", "REQUEST")
	for _, a := range list {
		t.row(a.ID, a.Status, ago(now, a.AskedAt), oneLine(a.ContextID, 24), a.Tool, oneLine(a.Readable, 60))
	}
	return t.print(inv)
}

type approvalsShowCmd struct {
	remote
	ID string `arg:"" help:"The request's id."`
}

func (c *approvalsShowCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	a, err := api.Approval(inv.ctx, c.ID)
	if err != nil {
		return err
	}
	return printApproval(inv, c.JSON, a)
}

func printApproval(inv *invocation, json bool, a bloom.Approval) error {
	if json {
		return writeJSON(inv.Out, a)
	}
	now := time.Now()
	fmt.Fprintf(inv.Out, "%s of task %s is %s (asked %s)\n\n", a.Tool, a.TaskID, a.Status, ago(now, a.AskedAt))
	for line := range strings.Lines(a.Readable) {
		fmt.Fprintf(inv.Out, "  %s\n", oneLine(strings.TrimSuffix(line, "\n"), 2000))
	}
	if a.Message != "" {
		fmt.Fprintf(inv.Out, "\n%s\n", a.Message)
	}
	return nil
}

type approvalsAllowCmd struct {
	remote
	ID     string            `arg:"" help:"The request's id."`
	Answer map[string]string `name:"answer" mapsep:"none" placeholder:"QUESTION=ANSWER" help:"Answer to a question (repeatable)."`
}

func (c *approvalsAllowCmd) Run(inv *invocation) error {
	return c.decide(inv, c.ID, bloom.Decision{Decision: "allow", Answers: c.Answer})
}

type approvalsDenyCmd struct {
	remote
	ID      string `arg:"" help:"The request's id."`
	Message string `name:"message" short:"m" placeholder:"TEXT" help:"Why not: Claude reads it."`
}

func (c *approvalsDenyCmd) Run(inv *invocation) error {
	return c.decide(inv, c.ID, bloom.Decision{Decision: "deny", Message: c.Message})
}

// decide decides about the input that the request has now.
func (r *remote) decide(inv *invocation, id string, d bloom.Decision) error {
	api, err := r.open()
	if err != nil {
		return err
	}
	a, err := api.Approval(inv.ctx, id)
	if err != nil {
		return err
	}
	d.InputSHA256 = a.InputSHA256
	var refused *bloom.Error
	a, err = api.Decide(inv.ctx, id, d)
	switch {
	case errors.As(err, &refused) && refused.Decided != nil:
		first := refused.Decided
		err = fmt.Errorf("%w %s", err, ago(time.Now(), deref(first.DecidedAt)))
		if first.Message != "" {
			err = fmt.Errorf("%w: %s", err, clean(first.Message, false))
		}
		return err
	case err != nil:
		return err
	}
	return printApproval(inv, r.JSON, a)
}
