package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/bench"
)

type benchCmd struct {
	Run   benchRunCmd   `cmd:"" default:"withargs" help:"Measure lifecycles, latencies and lists."`
	Fleet benchFleetCmd `cmd:"" help:"Measure the real path: clients create, workers claim and complete."`
	Polls benchPollsCmd `cmd:"" help:"Measure many workers that wait for work at the same time."`
	Costs benchCostsCmd `cmd:"" help:"Measure the CPU time that single operations take in the server and the database."`
	Fill  benchFillCmd  `cmd:"" help:"Create many tasks, to measure with a full store."`
}

// number is the value of a flag, and what it may be. A most of 0 is no bound.
type number struct {
	flag           string
	n, least, most int
}

// checkNumbers refuses the first value that is out of bounds.
func checkNumbers(numbers ...number) error {
	for _, v := range numbers {
		switch {
		case v.most == 0 && v.n < v.least:
			return usagef("%s: %d is less than %d", v.flag, v.n, v.least)
		case v.most != 0 && (v.n < v.least || v.n > v.most):
			return usagef("%s: %d is not between %d and %d", v.flag, v.n, v.least, v.most)
		}
	}
	return nil
}

// checkDuration refuses to measure for no time.
func checkDuration(d time.Duration) error {
	if d <= 0 {
		return usagef("--duration: %s is not greater than 0", d)
	}
	return nil
}

// printReport prints a measurement, or why it failed.
func printReport[T any](r *remote, inv *invocation, report T, err error, print func(T) error) error {
	switch {
	case err != nil:
		return interrupted(inv, err)
	case r.JSON:
		return writeJSON(inv.Out, report)
	}
	return print(report)
}

type benchRunCmd struct {
	remote
	Clients  int           `name:"clients" short:"c" default:"16" placeholder:"N" help:"Clients at once."`
	Duration time.Duration `name:"duration" short:"d" default:"10s" help:"How long lifecycles run."`
	Count    int           `name:"count" short:"n" placeholder:"N" help:"Run this many lifecycles instead of a duration."`
	Samples  int           `name:"samples" default:"200" placeholder:"N" help:"Measurements of each latency."`
	Skip     bool          `name:"lifecycles-only" help:"Skip start latency, lists, claim and stats."`
}

func (c *benchRunCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if err := checkNumbers(number{"--clients", c.Clients, 1, 0}, number{"--samples", c.Samples, 1, 0}, number{"--count", c.Count, 0, 0}); err != nil {
		return err
	}
	if err := checkDuration(c.Duration); err != nil {
		return err
	}
	m := bench.Run{
		APIKey: string(c.APIKey), Clients: c.Clients, Duration: c.Duration, Count: c.Count, Samples: c.Samples, Lifecycles: c.Skip,
	}
	if err := bench.Unlimited(inv.ctx, api, string(c.APIKey)); err != nil {
		return err
	}
	report, err := m.Measure(inv.ctx, api)
	return printReport(&c.remote, inv, report, err, inv.printRun)
}

func (inv *invocation) printRun(r *bench.RunReport) error {
	fmt.Fprintf(inv.Out, "%s, %s, %s tasks in the store before\n", r.Server, r.Storage, thousands(r.Tasks))
	fmt.Fprintf(inv.Out, "%s\n\n", inv.outPainter().paint(styleBold, fmt.Sprintf("%.0f lifecycles/s with %s (%s in %.1fs)",
		r.PerSecond, plural(int64(r.Clients), "client"), thousands(int64(r.Lifecycles)), r.Seconds)))
	return inv.printLatencies(r.Steps)
}

func (inv *invocation) printLatencies(steps []bench.Latency) error {
	t := newTable("STEP", "COUNT", "P50", "P95", "P99", "MAX")
	for _, l := range steps {
		t.row(l.Name, thousands(int64(l.Count)), ms(l.P50), ms(l.P95), ms(l.P99), ms(l.Max))
	}
	return t.print(inv.Out, inv.outPainter())
}

func ms(v float64) string { return fmt.Sprintf("%.2f ms", v) }

type benchFleetCmd struct {
	remote
	Creators int           `name:"creators" default:"16" placeholder:"N" help:"Clients that create tasks at once."`
	Workers  int           `name:"workers" default:"4" placeholder:"N" help:"Workers that claim and complete them."`
	Slots    int           `name:"slots" default:"16" placeholder:"N" help:"Tasks that a worker has at once, 1 to 32."`
	Backlog  int           `name:"backlog" default:"0" placeholder:"N" help:"Maximum number of unfinished tasks; 0: twice the slots of all workers."`
	Duration time.Duration `name:"duration" short:"d" default:"10s" help:"How long tasks are created."`
	Samples  int           `name:"samples" default:"200" placeholder:"N" help:"Tasks created one by one first, while all workers are idle; 0 for none."`
}

func (c *benchFleetCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	m := bench.Fleet{
		APIKey: string(c.APIKey), Creators: c.Creators, Workers: c.Workers, Slots: c.Slots, Backlog: c.Backlog, Duration: c.Duration, Samples: c.Samples,
	}
	if err := checkNumbers(number{"--creators", c.Creators, 1, 0}, number{"--workers", c.Workers, 1, 0}, number{"--slots", c.Slots, 1, bloom.MaxConcurrency},
		number{"--backlog", c.Backlog, 0, 0}, number{"--samples", c.Samples, 0, 0}); err != nil {
		return err
	}
	if err := checkDuration(c.Duration); err != nil {
		return err
	}
	if err := bench.Unlimited(inv.ctx, api, string(c.APIKey)); err != nil {
		return err
	}
	report, err := m.Measure(inv.ctx, api)
	return printReport(&c.remote, inv, report, err, inv.printFleet)
}

func (inv *invocation) printFleet(r *bench.FleetReport) error {
	fmt.Fprintf(inv.Out, "%s, %s, %s tasks in the store before\n", r.Server, r.Storage, thousands(r.Tasks))
	fmt.Fprintf(inv.Out, "%s\n\n", inv.outPainter().paint(styleBold, fmt.Sprintf("%.0f tasks/s with %s and %s of %s (%s in %.1fs, %s)", r.PerSecond,
		plural(int64(r.Creators), "creator"), plural(int64(r.Workers), "worker"), plural(int64(r.Slots), "slot"),
		thousands(int64(r.Completed)), r.Seconds, plural(int64(r.Failures), "failed call"))))
	return inv.printLatencies(r.Steps)
}

type benchPollsCmd struct {
	remote
	Polls      int           `name:"polls" default:"1000" placeholder:"N" help:"Workers whose long polls wait at once."`
	Registered int           `name:"registered" default:"0" placeholder:"N" help:"Additional workers that register and then stay silent."`
	Duration   time.Duration `name:"duration" short:"d" default:"30s" help:"How long the workers wait."`
	Settle     time.Duration `name:"settle" default:"10s" help:"How long to wait first, until all polls are established."`
	Samples    int           `name:"samples" default:"100" placeholder:"N" help:"Tasks created afterwards, to measure how soon a poll gets each; 0 for none."`
	PID        []int         `name:"pid" placeholder:"PID" help:"Process on this machine whose CPU and memory to measure, with its children (repeatable; Linux)."`
}

func (c *benchPollsCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if err := checkNumbers(number{"--polls", c.Polls, 1, 0}, number{"--registered", c.Registered, 0, 0}, number{"--samples", c.Samples, 0, 0}); err != nil {
		return err
	}
	if err := checkDuration(c.Duration); err != nil {
		return err
	}
	if c.Settle < 0 {
		return usagef("--settle: %s is less than 0", c.Settle)
	}
	m := bench.Polls{Polls: c.Polls, Registered: c.Registered, Duration: c.Duration, Settle: c.Settle, Samples: c.Samples, PID: c.PID}
	report, err := m.Measure(inv.ctx, api)
	return printReport(&c.remote, inv, report, err, inv.printPolls)
}

func (inv *invocation) printPolls(r *bench.PollsReport) error {
	inv.say("%s polls waiting, %s workers registered (%s); %d polls returned in %.0f s",
		thousands(int64(r.Polls)), thousands(int64(r.Registered)), r.Storage, r.Answered, r.Seconds)
	for _, p := range r.Processes {
		inv.say("process %d (%s): %.1f %% of a core, %.0f MB", p.PID, p.Name, p.CPUPercent, p.MemoryMB)
	}
	for _, s := range r.Steps {
		inv.say("%s: p50 %.1f ms, p99 %.1f ms (%d)", s.Name, s.P50, s.P99, s.Count)
	}
	return nil
}

type benchCostsCmd struct {
	remote
	Clients  int           `name:"clients" short:"c" default:"8" placeholder:"N" help:"Clients at once."`
	Duration time.Duration `name:"duration" short:"d" default:"10s" help:"How long each operation is repeated."`
	Events   int           `name:"events" default:"5" placeholder:"N" help:"Events in a request."`
	Streams  int           `name:"streams" default:"500" placeholder:"N" help:"Streams followed at once; 0 for none."`
	PID      []int         `name:"pid" required:"" placeholder:"PID" help:"Process on this machine whose CPU to measure, with its children: the server first, then others of the same database, and the database (repeatable; Linux)."`
}

func (c *benchCostsCmd) Run(inv *invocation) error {
	api, err := c.open()
	if err != nil {
		return err
	}
	if err := checkNumbers(number{"--clients", c.Clients, 1, 0}, number{"--events", c.Events, 1, 0}, number{"--streams", c.Streams, 0, 0}); err != nil {
		return err
	}
	if err := checkDuration(c.Duration); err != nil {
		return err
	}
	if err := bench.Unlimited(inv.ctx, api, string(c.APIKey)); err != nil {
		return err
	}
	m := bench.Costs{APIKey: string(c.APIKey), Clients: c.Clients, Duration: c.Duration, Events: c.Events, Streams: c.Streams, PID: c.PID}
	report, err := m.Measure(inv.ctx, api)
	return printReport(&c.remote, inv, report, err, inv.printCosts)
}

func (inv *invocation) printCosts(r *bench.CostsReport) error {
	fmt.Fprintf(inv.Out, "%s, %s; milliseconds of one core an operation\n\n", r.Storage, plural(int64(r.Clients), "client"))
	t := newTable(append([]string{"OPERATION", "COUNT", "PER SECOND"}, r.Processes...)...)
	for _, o := range r.Operations {
		row := []any{o.Name, thousands(o.Count), fmt.Sprintf("%.0f", o.PerSecond)}
		for _, ms := range o.CPU {
			row = append(row, fmt.Sprintf("%.3f", ms))
		}
		t.row(row...)
	}
	if err := t.print(inv.Out, inv.outPainter()); err != nil {
		return err
	}
	if r.Streams > 0 {
		inv.say("%s streams: %.0f KiB of %s each", thousands(int64(r.Streams)), r.StreamKiB, r.Processes[0])
	}
	return nil
}

type benchFillCmd struct {
	remote
	Count   int    `name:"count" short:"n" default:"100000" placeholder:"N" help:"Tasks to create."`
	Clients int    `name:"clients" short:"c" default:"32" placeholder:"N" help:"Clients at once."`
	Queued  int    `name:"queued" default:"5" placeholder:"PERCENT" help:"Share of tasks that stay queued; the others are completed."`
	DataDir string `name:"data-dir" placeholder:"DIR" help:"Fill the data folder of a stopped server directly: whole lifecycles, and much faster."`
}

func (c *benchFillCmd) Run(inv *invocation) error {
	if err := checkNumbers(number{"--count", c.Count, 1, 0}, number{"--clients", c.Clients, 1, 0}, number{"--queued", c.Queued, 0, 100}); err != nil {
		return err
	}
	f := bench.Fill{Count: c.Count, Clients: c.Clients, Queued: c.Queued}
	if inv.ErrTerminal {
		f.Progress = func(made int64) { fmt.Fprintf(inv.Err, "\r%s of %s", thousands(made), thousands(int64(c.Count))) }
	}
	began := time.Now()
	err := c.fill(inv, f)
	inv.progress("")
	if err != nil {
		return interrupted(inv, err)
	}
	took := time.Since(began)
	if c.JSON {
		return writeJSON(inv.Out, map[string]any{"created": c.Count, "seconds": took.Seconds()})
	}
	inv.say("%s tasks in %s (%.0f/s)", thousands(int64(c.Count)), span(took), float64(c.Count)/took.Seconds())
	return nil
}

func (c *benchFillCmd) fill(inv *invocation, f bench.Fill) (err error) {
	if c.DataDir == "" {
		api, err := c.open()
		if err != nil {
			return err
		}
		if err := bench.Unlimited(inv.ctx, api, string(c.APIKey)); err != nil {
			return err
		}
		return f.Server(inv.ctx, api)
	}
	store, err := app.OpenStore(inv.ctx, c.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return f.Store(inv.ctx, store)
}
