package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

type schedulesCmd struct {
	List   schedulesListCmd   `cmd:"" default:"withargs" help:"List schedules."`
	Add    schedulesAddCmd    `cmd:"" help:"Create a schedule, or replace the one of that name."`
	Show   schedulesShowCmd   `cmd:"" help:"Show a schedule, its next times and its last ones."`
	Run    schedulesRunCmd    `cmd:"" help:"Start a schedule's task now."`
	Pause  schedulesPauseCmd  `cmd:"" help:"Pause a schedule: nothing starts until it is resumed."`
	Resume schedulesResumeCmd `cmd:"" help:"Resume a schedule. What it missed is not made up for."`
	Rm     schedulesRmCmd     `cmd:"" help:"Remove a schedule; its tasks stay."`
}

type schedulesAddCmd struct {
	remote
	Name     string        `arg:"" help:"The schedule's name."`
	Cron     string        `name:"cron" placeholder:"EXPR" help:"Minute, hour, day, month and weekday: \"0 3 * * 1-5\"; or @hourly, @daily, @weekly, @monthly."`
	Every    time.Duration `name:"every" placeholder:"DURATION" help:"Start at this interval instead, at least 1m."`
	TimeZone string        `name:"time-zone" placeholder:"ZONE" help:"Time zone of --cron, for example Europe/Kyiv; default: this machine's."`
	Overlap  string        `name:"overlap" enum:"skip,allow,cancel" default:"skip" help:"If the last task has not ended: skip this time, allow another task, or cancel the last."`
	CatchUp  string        `name:"catch-up" enum:"one,none" default:"one" help:"After an outage start the last missed time, if it is at most an hour ago: one; or none."`
	Paused   bool          `name:"paused" help:"Start nothing until it is resumed."`
	taskFlags
}

func (c *schedulesAddCmd) Run(inv *invocation) error {
	if c.Delay != 0 || c.IdempotencyKey != "" {
		return usagef("--delay and --idempotency-key do not apply: the schedule sets the time")
	}
	switch {
	case (c.Cron == "") == (c.Every == 0):
		return usagef("give --cron or --every, and not both")
	case c.Every != 0 && c.Every < time.Minute:
		return usagef("--every must be at least 1m")
	}
	api, err := c.open()
	if err != nil {
		return err
	}
	task, err := c.spec(inv)
	if err != nil {
		return err
	}
	if c.Context == "" {
		task.ContextID = c.Name + " {{.ScheduledAt}}"
	}
	zone := c.TimeZone
	if zone == "" {
		zone = localZone()
	}
	saved, err := api.SaveSchedule(inv.ctx, c.Name, bloom.ScheduleSpec{
		Cron: c.Cron, EverySec: int64(c.Every / time.Second), TimeZone: zone, Task: task, Overlap: c.Overlap, CatchUp: c.CatchUp, Paused: c.Paused,
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, saved)
	}
	return printSchedule(inv, api, saved)
}

// localZone returns the name of this machine's time zone.
func localZone() string {
	if name := os.Getenv("TZ"); name != "" {
		return strings.TrimPrefix(name, ":")
	}
	if target, err := os.Readlink("/etc/localtime"); err == nil {
		if _, name, ok := strings.Cut(target, "zoneinfo/"); ok {
			return name
		}
	}
	return "UTC"
}

type schedulesListCmd struct{ remote }

func (c *schedulesListCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	list, err := api.Schedules(inv.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, list)
	}
	now := time.Now()
	t := newTable("NAME", "WHEN", "NEXT", "LAST", "PROMPT")
	for _, s := range list {
		last := "never"
		if len(s.Recent) > 0 {
			last = ago(now, s.Recent[0].At)
		}
		t.row(oneLine(s.Name, 40), when(s.ScheduleSpec), nextTime(now, s), last, oneLine(s.Task.Prompt, 60))
	}
	if len(list) == 0 {
		fmt.Fprintln(inv.Err, "There are no schedules. To add one: "+inv.command(`schedules add NAME --cron "0 3 * * *" PROMPT`))
		return nil
	}
	return t.print(inv)
}

func when(s bloom.ScheduleSpec) string {
	if s.EverySec > 0 {
		return "every " + briefly(s.EverySec)
	}
	return s.Cron + " " + s.TimeZone
}

func nextTime(now time.Time, s bloom.Schedule) string {
	switch {
	case s.Paused:
		return "paused"
	case s.NextAt == nil:
		return "never"
	}
	return ago(now, *s.NextAt)
}

// ofSchedule is a command about one schedule.
type ofSchedule struct {
	remote
	Name string `arg:"" help:"The schedule's name."`
}

// do changes the schedule and prints it.
func (c *ofSchedule) do(inv *invocation, change func(*client.Client) (bloom.Schedule, error)) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	is, err := change(api)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return writeJSON(inv.Out, is)
	}
	return printSchedule(inv, api, is)
}

type schedulesShowCmd struct{ ofSchedule }

func (c *schedulesShowCmd) Run(inv *invocation) error {
	return c.do(inv, func(api *client.Client) (bloom.Schedule, error) { return api.Schedule(inv.ctx, c.Name) })
}

type schedulesPauseCmd struct{ ofSchedule }

func (c *schedulesPauseCmd) Run(inv *invocation) error {
	return c.do(inv, func(api *client.Client) (bloom.Schedule, error) { return api.PauseSchedule(inv.ctx, c.Name) })
}

type schedulesResumeCmd struct{ ofSchedule }

func (c *schedulesResumeCmd) Run(inv *invocation) error {
	return c.do(inv, func(api *client.Client) (bloom.Schedule, error) { return api.ResumeSchedule(inv.ctx, c.Name) })
}

type schedulesRmCmd struct {
	ofSchedule
	consent
}

func (c *schedulesRmCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if err := c.ask(inv, "Remove the schedule "+c.Name); err != nil {
		return err
	}
	return api.RemoveSchedule(inv.ctx, c.Name)
}

type schedulesRunCmd struct{ ofSchedule }

func (c *schedulesRunCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	task, err := api.RunSchedule(inv.ctx, c.Name)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return writeJSON(inv.Out, task)
	}
	_, err = fmt.Fprintln(inv.Out, task.ID)
	return err
}

func printSchedule(inv *invocation, api *client.Client, s bloom.Schedule) error {
	now := time.Now()
	zone, err := time.LoadLocation(s.TimeZone)
	if err != nil {
		zone = time.UTC
	}
	shown := func(at int64) string { return time.UnixMilli(at).In(zone).Format("Mon 2006-01-02 15:04 MST") }
	t := newTable("FIELD", "VALUE")
	t.row("schedule", s.Name)
	t.row("when", when(s.ScheduleSpec))
	t.row("if the last task runs", s.Overlap)
	catchUp := "start the last missed time, if it is at most an hour ago"
	if s.CatchUp == "none" {
		catchUp = "start nothing that was missed"
	}
	t.row("after an outage", catchUp)
	t.row("agent", s.Task.AgentSlug)
	t.row("context", s.Task.ContextID)
	t.row("prompt", oneLine(s.Task.Prompt, 200))
	t.row("next", nextTime(now, s))
	for _, at := range s.Upcoming {
		t.row("", shown(at))
	}
	started := false
	for i, o := range s.Recent[:min(len(s.Recent), 10)] {
		name := ""
		if i == 0 {
			name = "last"
		}
		outcome := fmt.Sprintf("skipped: %s", strings.ReplaceAll(o.Skipped, "_", " "))
		if o.TaskID != nil {
			started = true
			outcome = "task " + *o.TaskID + "  " + became(inv, api, *o.TaskID)
		}
		if o.Count > 1 {
			outcome += fmt.Sprintf(" (%d times)", o.Count)
		}
		t.row(name, shown(o.At)+"  "+outcome)
	}
	err = t.print(inv)
	if started && err == nil {
		_, err = fmt.Fprintln(inv.Err, "To see one of the tasks: "+inv.command("task show ID"))
	}
	return err
}

// became is a task's status, and how long it took.
func became(inv *invocation, api *client.Client, id string) string {
	task, err := api.Task(inv.ctx, id)
	switch {
	case bloom.KindOf(err) == bloom.KindNotFound:
		return "removed"
	case err != nil: // the schedule itself is known
		return "unknown"
	case task.Status.Terminal():
		return string(task.Status) + " in " + took(task)
	}
	return string(task.Status)
}
