package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/storable"
)

type workersCmd struct {
	List    workersListCmd    `cmd:"" default:"withargs" help:"List workers."`
	Show    workersShowCmd    `cmd:"" help:"Show one worker and its leases."`
	Logs    workersLogsCmd    `cmd:"" help:"Show the last log lines that a worker reported."`
	Rm      workersRmCmd      `cmd:"" help:"Remove a worker; its tasks return to the queue."`
	Drain   workersDrainCmd   `cmd:"" help:"Stop a worker from taking tasks; running ones continue."`
	Undrain workersUndrainCmd `cmd:"" help:"Let a worker take tasks again that was drained at the runtime."`
}

type workersListCmd struct{ remote }

func (c *workersListCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	workers, err := api.Workers(inv.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		if workers == nil {
			workers = []bloom.Worker{}
		}
		return writeJSON(inv.Out, workers)
	}
	now := time.Now()
	t := newTable("WORKER", "STATUS", "BUSY", "LABELS", "CONTACT", "VERSION", "SYSTEM")
	for _, w := range workers {
		t.row(w.ID, workerStatus(w), fmt.Sprintf("%d/%d", w.ActiveLeases, w.Capabilities.MaxConcurrency),
			dash(strings.Join(w.Capabilities.Labels, ",")), ago(now, deref(w.LastHeartbeat)), dash(w.AgentVersion), dash(w.OSInfo))
	}
	return t.print(inv)
}

func workerStatus(w bloom.Worker) cell {
	c := cell{text: string(w.Status)}
	switch w.Status {
	case bloom.WorkerOnline:
		c.style = styleGreen
	case bloom.WorkerError:
		c.style = styleRed
	case bloom.WorkerOffline, bloom.WorkerSyncing, bloom.WorkerUnknown:
		c.style = styleYellow
	}
	if w.Draining {
		c.text += ", draining"
		c.style = styleYellow
	}
	if w.Pause != nil {
		c.text += ", paused"
		c.style = styleYellow
	}
	return c
}

type workersShowCmd struct {
	remote
	ID string `arg:"" help:"The worker's name."`
}

func (c *workersShowCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	w, err := api.Worker(inv.ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, w)
	}
	now := time.Now()
	t := newTable("FIELD", "VALUE")
	t.row("worker", w.ID)
	t.row("status", workerStatus(w.Worker))
	if w.Draining {
		t.row("drained", drainedAt(w.Worker))
	}
	if p := w.Pause; p != nil {
		t.row("paused", "until "+time.UnixMilli(p.Until).Format(time.RFC3339)+": "+p.Reason)
	}
	t.row("busy", fmt.Sprintf("%d of %d", w.ActiveLeases, w.Capabilities.MaxConcurrency))
	t.row("claude", w.Capabilities.ClaudeCLI)
	t.row("labels", dash(strings.Join(w.Capabilities.Labels, ", ")))
	t.row("contact", ago(now, deref(w.LastHeartbeat)))
	t.row("registered", ago(now, w.RegisteredAt))
	t.row("addresses", dash(strings.Join(w.IPAddrs, ", ")))
	t.row("version", dash(w.AgentVersion))
	t.row("system", dash(w.OSInfo))
	t.row("agents", dash(strings.Join(w.Agents, ", ")))
	for _, l := range w.Leases {
		t.row("lease", fmt.Sprintf("%s of task %s, expires %s", l.ID, l.TaskID, ago(now, l.ExpiresAt)))
	}
	return t.print(inv)
}

type workersLogsCmd struct {
	remote
	ID     string `arg:"" help:"The worker's name."`
	Follow bool   `name:"follow" short:"f" help:"Print new lines until interrupted."`
}

// followEvery is how often new lines are requested; workers report as often.
const followEvery = 3 * time.Second

func (c *workersLogsCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	var last []bloom.LogLine
	for read := 0; ; read++ {
		logs, err := api.WorkerLogs(inv.ctx, c.ID)
		switch {
		case err == nil:
		case c.Follow && read > 0 && client.Temporary(err):
			logs.Lines = last // an outage does not end what is followed
		default:
			return err
		}
		if c.JSON && !c.Follow {
			return writeJSON(inv.Out, logs)
		}
		for _, l := range logs.Lines {
			if slices.Contains(last, l) {
				continue
			}
			if err := c.print(inv, l); err != nil {
				return err
			}
		}
		if !c.Follow {
			return nil
		}
		last = logs.Lines
		if err := retry.Sleep(inv.ctx, followEvery); err != nil {
			return err
		}
	}
}

func (c *workersLogsCmd) print(inv *invocation, l bloom.LogLine) error {
	if c.JSON {
		_, err := fmt.Fprintln(inv.Out, string(storable.MustJSON(l)))
		return err
	}
	p, level := inv.outPainter(), fmt.Sprintf("%-5s", clean(l.Level, false))
	switch l.Level {
	case "ERROR":
		level = p.paint(styleRed, level)
	case "WARN":
		level = p.paint(styleYellow, level)
	}
	_, err := fmt.Fprintf(inv.Out, "%s %s %s\n", time.UnixMilli(l.At).Format(time.DateTime), level, clean(l.Text, false))
	return err
}

// drainedAt returns where the worker was drained, which is where it must be undrained.
func drainedAt(w bloom.Worker) string {
	switch {
	case w.RuntimeDrain && w.ControlDrain:
		return "at the runtime and at membridge"
	case w.ControlDrain:
		return "at membridge"
	}
	return "at the runtime"
}

type workersRmCmd struct {
	remote
	consent
	ID string `arg:"" help:"The worker's name."`
}

func (c *workersRmCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if err := c.ask(inv, "Remove the worker "+c.ID); err != nil {
		return err
	}
	if err := api.RemoveWorker(inv.ctx, c.ID); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(inv.Out, map[string]any{"removed": true, "id": c.ID})
	}
	_, err = fmt.Fprintf(inv.Out, "%s was removed; its tasks are back in the queue.\n", clean(c.ID, false))
	return err
}

type workersDrainCmd struct {
	remote
	ID string `arg:"" help:"The worker's name."`
}

func (c *workersDrainCmd) Run(inv *invocation) error { return c.drain(inv, c.ID, true) }

type workersUndrainCmd struct {
	remote
	ID string `arg:"" help:"The worker's name."`
}

func (c *workersUndrainCmd) Run(inv *invocation) error { return c.drain(inv, c.ID, false) }

func (r *remote) drain(inv *invocation, id string, drain bool) error {
	api, err := r.open()
	if err != nil {
		return err
	}
	w, err := api.DrainWorker(inv.ctx, id, drain)
	if err != nil {
		return err
	}
	if r.JSON {
		return writeJSON(inv.Out, w)
	}
	verdict := "takes no more work; tasks still running: " + thousands(int64(w.ActiveLeases))
	switch {
	case !w.Draining:
		verdict = "takes work"
	case !drain:
		verdict = "is undrained at the runtime, but still takes no work: it is drained at membridge, too"
	}
	_, err = fmt.Fprintf(inv.Out, "%s %s.\n", clean(w.ID, false), verdict)
	return err
}
