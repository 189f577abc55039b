package cli

import (
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/bench"
)

type benchCmd struct {
	Run   benchRunCmd   `cmd:"" default:"withargs" help:"Measure lifecycles, latencies and lists."`
	Fleet benchFleetCmd `cmd:"" help:"Measure the real path: clients create, workers claim and complete."`
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
	return t.print(inv)
}

func ms(v float64) string { return fmt.Sprintf("%.2f ms", v) }

type benchFleetCmd struct {
	remote
	Creators int           `name:"creators" default:"16" placeholder:"N" help:"Clients that create tasks at once."`
	Workers  int           `name:"workers" default:"4" placeholder:"N" help:"Workers that claim and complete them."`
	Slots    int           `name:"max-concurrency" aliases:"slots" default:"16" placeholder:"N" help:"Tasks that a worker has at once, 1 to 32."`
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
	if err := checkNumbers(number{"--creators", c.Creators, 1, 0}, number{"--workers", c.Workers, 1, 0}, number{"--max-concurrency", c.Slots, 1, bloom.MaxConcurrency},
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
