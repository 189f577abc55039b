package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

type taskCmd struct {
	Run     taskRunCmd     `cmd:"" help:"Submit a task, follow its stream, and exit with its outcome."`
	Submit  taskSubmitCmd  `cmd:"" help:"Submit a task and print its id."`
	List    taskListCmd    `cmd:"" help:"List tasks, newest first."`
	Show    taskShowCmd    `cmd:"" help:"Show one task and its results."`
	Logs    taskLogsCmd    `cmd:"" help:"Show a task's event stream."`
	Wait    taskWaitCmd    `cmd:"" help:"Wait for a task to end, and exit with its outcome."`
	Cancel  taskCancelCmd  `cmd:"" help:"Cancel a task, or all tasks that match."`
	Requeue taskRequeueCmd `cmd:"" help:"Requeue a failed, dead or cancelled task, or all that match."`
}

// taskID is the argument of the commands about one task.
type taskID struct {
	ID string `arg:"" help:"The task's id, its last 8 characters, or @last."`
}

// conditions select tasks.
type conditions struct {
	Status  string   `name:"status" enum:",queued,leased,running,completed,failed,dead,cancelled" default:"" placeholder:"STATUS" help:"Only tasks in this status: queued, leased, running, completed, failed, dead, cancelled."`
	Context string   `name:"context" placeholder:"ID" help:"Only tasks of this context."`
	Agent   string   `name:"agent" placeholder:"SLUG" help:"Only tasks of this agent."`
	Worker  string   `name:"worker" placeholder:"NAME" help:"Only tasks of this worker."`
	Error   string   `name:"error" placeholder:"CLASS" help:"Only tasks whose last attempt failed with this error class: timeout, rate_limited, worker_lost …"`
	Label   []string `name:"label" short:"l" placeholder:"L" help:"Only tasks that require this label (repeatable: all of them)."`
	Query   string   `name:"query" aliases:"search" short:"q" placeholder:"TEXT" help:"Only tasks whose prompt or output contains these words (\"a phrase\", begin*), or with this in the id."`
}

type taskListCmd struct {
	remote
	paging
	conditions `group:"Which tasks:"`
}

func (c *taskListCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	if c.Context, err = c.findContext(inv, api, c.Context); err != nil {
		return err
	}
	tasks, err := take(c.paging, api.AllTasks(inv.ctx, bloom.TaskQuery{Status: bloom.TaskStatus(c.Status),
		ContextID: c.Context, AgentSlug: c.Agent, WorkerID: c.Worker, Error: c.Error, Labels: c.Label, Text: c.Query, Page: c.page()}))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, tasks)
	}
	now := time.Now()
	text := "PROMPT"
	if c.Query != "" {
		text = "FOUND"
	}
	t := newTable("TASK", "STATUS", "AGENT", "WORKER", "CREATED", "TOOK", "COST", text)
	for _, task := range tasks {
		t.row(task.ID, cell{string(task.Status), statusStyle(task.Status)}, oneLine(task.AgentSlug, 20), dash(deref(task.WorkerID)),
			ago(now, task.CreatedAt), took(task), cost(task.Usage), found(task))
	}
	return t.print(inv)
}

// took returns the time from a task's submission to its end.
func took(task bloom.Task) string {
	if !task.Status.Terminal() {
		return "-"
	}
	return span(time.Duration(task.UpdatedAt-task.CreatedAt) * time.Millisecond)
}

// cost returns what attempts cost; the page of a task has it exactly.
func cost(u *bloom.Usage) string {
	switch {
	case u == nil || u.CostUSD == 0:
		return "-"
	case u.CostUSD < 0.01:
		return "<$0.01"
	}
	return fmt.Sprintf("$%.2f", u.CostUSD)
}

// found returns where a search matched a task, or the beginning of its prompt.
func found(task bloom.Task) string {
	if task.Snippet == nil {
		return oneLine(task.Prompt, 100)
	}
	var text strings.Builder
	for _, p := range task.Snippet.Parts {
		text.WriteString(p.Text)
	}
	return oneLine(text.String(), 100)
}

type taskShowCmd struct {
	remote
	taskID
}

func (c *taskShowCmd) Run(inv *invocation) error {
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
	results, err := api.Results(inv.ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, struct {
			Task    bloom.Task     `json:"task"`
			Results []bloom.Result `json:"results"`
		}{task, append([]bloom.Result{}, results...)})
	}
	return printTask(inv, task, results)
}

// warningLine is what qualifies an outcome, in a line.
func warningLine(w bloom.Warning) string {
	return "warning: " + clean(oneLine(w.Text, 500), false) + " (" + clean(w.Code, false) + ")"
}

type taskWaitCmd struct {
	remote
	taskID
}

func (c *taskWaitCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if err := c.find(inv, &c.remote, api); err != nil {
		return err
	}
	task, err := api.Await(inv.ctx, c.ID)
	if err != nil {
		return interrupted(inv, err)
	}
	if c.JSON {
		err = writeJSON(inv.Out, task)
	} else {
		_, err = fmt.Fprintln(inv.Out, task.Status)
	}
	if err != nil {
		return err
	}
	return verdict(task)
}

// verdict returns the exit code of a command that waited for a task.
func verdict(task bloom.Task) error {
	if task.Status != bloom.TaskCompleted {
		return errSilent
	}
	return nil
}

// input calls read, which reads from the user or a pipe and may never return, and returns at an
// interrupt.
func input[T any](inv *invocation, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-inv.ctx.Done():
		var none T
		return none, errInterrupted
	}
}

// interrupted distinguishes an interrupt by the user from a failure.
func interrupted(inv *invocation, err error) error {
	if inv.ctx.Err() != nil {
		return errInterrupted
	}
	return err
}
