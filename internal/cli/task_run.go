package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// interruptTimeout bounds the requests to the server after an interrupt.
const interruptTimeout = 5 * time.Second

type taskRunCmd struct {
	newTask
	Quiet             bool `name:"quiet" help:"Print only the output and the outcome."`
	CancelOnInterrupt bool `name:"cancel-on-interrupt" help:"Cancel the task on Ctrl-C; without this flag it continues. A second Ctrl-C exits without waiting for the server."`
}

func (c *taskRunCmd) Run(inv *invocation) error {
	ctx, done := c.submission(inv)
	api, task, err := c.submit(ctx, inv)
	done()
	if c.CancelOnInterrupt && errors.Is(err, errInterrupted) {
		fmt.Fprintln(inv.Err, "\nThe server has not answered; it may have created the task.\n  find it:  "+inv.command("task list"))
	}
	if err != nil {
		return err
	}
	v := newView(inv, &lockedWriter{w: inv.Err}, inv.errPainter(), !c.Quiet && inv.ErrTerminal)
	v.note(styleDim, "task "+task.ID)
	hush := func() {}
	if !c.Quiet {
		hush = explainWaiting(inv.ctx, api, task.ID, v)
	}
	defer hush()
	for event, err := range api.FollowEvents(inv.ctx, task.ID, client.FollowOptions{OnReconnect: v.reconnect}) {
		if err != nil {
			if inv.ctx.Err() != nil {
				return c.leave(inv, api, task.ID)
			}
			return err
		}
		if event.Type == bloom.EventLeased {
			hush()
		}
		v.event(event)
	}
	hush()
	if inv.ctx.Err() != nil {
		return c.leave(inv, api, task.ID)
	}
	return c.finish(inv, api.WithRetry(client.Retry{Tries: outcomeTries}), task.ID, v)
}

// outcomeTries is how often the outcome is requested once the stream has ended: for about two minutes.
const outcomeTries = 30

// submission returns the context of the submission. If the task is to be cancelled on an interrupt,
// an interrupt lets the submission end, for a while: without its answer, the task is unknown here.
func (c *taskRunCmd) submission(inv *invocation) (context.Context, context.CancelFunc) {
	if !c.CancelOnInterrupt {
		return inv.ctx, func() {}
	}
	ctx, cancel := context.WithCancel(inv.cut)
	stop := context.AfterFunc(inv.ctx, func() { time.AfterFunc(interruptTimeout, cancel) })
	return ctx, func() { stop(); cancel() }
}

// leave stops following; it cancels the task only if requested.
func (c *taskRunCmd) leave(inv *invocation, api *client.Client, id string) error {
	if !c.CancelOnInterrupt {
		fmt.Fprintf(inv.Err, "\nThe task continues.\n  follow it:  %s\n  cancel it:  %s\n", inv.command("task logs -f "+id), inv.command("task cancel "+id))
		return errInterrupted
	}
	ctx, done := context.WithTimeout(inv.cut, interruptTimeout)
	defer done()
	if _, err := api.Cancel(ctx, id); err != nil {
		fmt.Fprintf(inv.Err, "\nThe task could not be cancelled: %s\n", clean(explain(err), true))
		return errInterrupted
	}
	fmt.Fprintf(inv.Err, "\nTask %s is being cancelled.\n", id)
	return errInterrupted
}

// finish prints the output and the outcome, or how to read them later.
func (c *taskRunCmd) finish(inv *invocation, api *client.Client, id string, v *view) error {
	err := c.outcome(inv, api, id, v)
	if client.Temporary(err) {
		fmt.Fprintf(inv.Err, "\nThe task has ended, but its result could not be read.\n  read it later:  %s\n", inv.command("task show "+id))
	}
	return err
}

func (c *taskRunCmd) outcome(inv *invocation, api *client.Client, id string, v *view) error {
	task, err := api.Task(inv.ctx, id)
	if err != nil {
		return err
	}
	results, err := api.Results(inv.ctx, id)
	if err != nil {
		return err
	}
	output := ""
	if len(results) > 0 {
		if _, raw, err := api.TaskOutput(inv.ctx, id); err == nil {
			output = string(raw)
		} else if task.Status == bloom.TaskCompleted {
			return err
		}
	}
	if c.JSON {
		if err := writeJSON(inv.Out, struct {
			Task   bloom.Task    `json:"task"`
			Result *bloom.Result `json:"result"`
			Output string        `json:"output"`
		}{task, first(results), output}); err != nil {
			return err
		}
		return verdict(task)
	}
	// On a terminal the output was already visible in the stream.
	if output != "" && (!inv.OutTerminal || !v.showed(output)) {
		_, err = fmt.Fprintln(inv.Out, strings.TrimRight(output, "\n"))
	}
	v.verdict(task, first(results))
	if err != nil {
		return err
	}
	return verdict(task)
}

func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

type taskLogsCmd struct {
	remote
	taskID
	Follow bool `name:"follow" short:"f" help:"Follow the stream until the task ends."`
}

func (c *taskLogsCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if err := c.find(inv, &c.remote, api); err != nil {
		return err
	}
	task, err := api.Task(inv.ctx, c.ID)
	if err != nil {
		return err
	}
	out := &lockedWriter{w: inv.Out}
	v := newView(inv, out, inv.outPainter(), true)
	ctx, done := context.WithCancel(inv.ctx)
	defer done()
	// Without -f the stream of an unfinished task is left once it is idle. Its first event may be
	// slow to arrive.
	var idle *time.Timer
	if !c.Follow && !task.Status.Terminal() {
		idle = time.AfterFunc(client.DefaultTimeout, done)
		defer idle.Stop()
	}
	seen := false
	for event, err := range api.FollowEvents(ctx, c.ID, client.FollowOptions{OnReconnect: v.reconnect}) {
		if err != nil {
			switch idled := ctx.Err() != nil && inv.ctx.Err() == nil; {
			case idled && seen:
				return nil
			case idled:
				return fmt.Errorf("the server sent no event of task %s within %s", c.ID, client.DefaultTimeout)
			}
			return err
		}
		seen = true
		if idle != nil {
			idle.Reset(quiet)
		}
		if c.JSON {
			_ = writeLine(out, event)
		} else {
			v.event(event)
		}
		if err := out.failed(); err != nil {
			return err
		}
	}
	return nil
}

// quiet is how long a stream must be idle to count as read.
const quiet = 300 * time.Millisecond
