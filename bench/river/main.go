// River measures the job queue River (github.com/riverqueue/river) on a database
// of its own, to compare our measurements with.
//
//	go run ./river --database-url postgres://… --clients 16
//
// It measures three things: how many jobs are inserted a second, one a
// transaction; how many are inserted and worked, until the last of them stands
// as completed in the table; and how long a job that finds all workers idle waits
// for its work to start, both after a pause and right after the job before, which
// River delays on purpose. The last two with River's default settings and with
// short pauses between fetches, since the defaults favour a quiet database.
//
// What a job of River's does here is less than a lifecycle of ours: inserting and
// working happen in one process that speaks to PostgreSQL directly. There is no
// HTTP, no key that is checked, no lease with heartbeats, no audit, no events, no
// stored result; a job is a row with a prompt that is updated twice.
//
// The database has to be empty: the program installs River's own tables in it
// and leaves them behind.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/riverqueue/river"
)

// options is what to measure.
type options struct {
	databaseURL string
	clients     int
	maxWorkers  int
	connections int
	duration    time.Duration
	samples     int
	pause       time.Duration
	json        bool
}

// report is what a measurement came to.
type report struct {
	PostgreSQL    string    `json:"postgresql"`
	Clients       int       `json:"clients"`
	MaxWorkers    int       `json:"max_workers"`
	Connections   int       `json:"connections"`
	Inserted      rate      `json:"inserted"`
	WorkedDefault rate      `json:"inserted_and_worked"`
	WorkedTuned   rate      `json:"inserted_and_worked_tuned"`
	AloneDefault  latencies `json:"insert_to_start"`
	AloneTuned    latencies `json:"insert_to_start_tuned"`
	AfterDefault  latencies `json:"insert_to_start_after_another"`
	AfterTuned    latencies `json:"insert_to_start_after_another_tuned"`
}

// rate is a number of jobs in a time.
type rate struct {
	Jobs      int64   `json:"jobs"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
}

// latencies are milliseconds.
type latencies struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
}

// pace is how often River fetches jobs.
type pace struct {
	cooldown, poll time.Duration
}

var (
	defaults = pace{river.FetchCooldownDefault, river.FetchPollIntervalDefault}
	// The shortest cooldown that River accepts.
	tuned = pace{river.FetchCooldownMin, 10 * time.Millisecond}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("river", flag.ContinueOnError)
	flags.StringVar(&o.databaseURL, "database-url", "", "an empty PostgreSQL `database`")
	flags.IntVar(&o.clients, "clients", 16, "goroutines that insert at once")
	flags.IntVar(&o.maxWorkers, "max-workers", 100, "jobs that River works at once")
	flags.IntVar(&o.connections, "connections", 32, "largest size of the pool")
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "how long jobs are inserted, each time")
	flags.IntVar(&o.samples, "samples", 200, "jobs that find all workers idle, for each latency")
	flags.DurationVar(&o.pause, "pause", 200*time.Millisecond, "pause before them, half of it to one and a half")
	flags.BoolVar(&o.json, "json", false, "write JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.databaseURL == "" || o.clients < 1 || o.maxWorkers < 1 || o.connections < 2 || o.samples < 1 || o.duration <= 0 || o.pause <= 0 {
		return errors.New("--database-url is needed, and every number must be greater than 0, --connections than 1")
	}
	r, err := measure(ctx, o)
	if err != nil {
		return err
	}
	if o.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.print(out)
}

func (r *report) print(out io.Writer) error {
	fmt.Fprintf(out, "River on PostgreSQL %s: %d clients, MaxWorkers %d, at most %d connections\n\n", r.PostgreSQL, r.Clients, r.MaxWorkers, r.Connections)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tFETCHES\tRESULT\t")
	fmt.Fprintf(t, "inserted\t–\t%s\t\n", r.Inserted)
	fmt.Fprintf(t, "inserted and worked\tdefault: %s\t%s\t\n", defaults, r.WorkedDefault)
	fmt.Fprintf(t, "inserted and worked\ttuned: %s\t%s\t\n", tuned, r.WorkedTuned)
	fmt.Fprintf(t, "insert to start, after a pause\tdefault: %s\t%s\t\n", defaults, r.AloneDefault)
	fmt.Fprintf(t, "insert to start, after a pause\ttuned: %s\t%s\t\n", tuned, r.AloneTuned)
	fmt.Fprintf(t, "insert to start, right after another\tdefault: %s\t%s\t\n", defaults, r.AfterDefault)
	fmt.Fprintf(t, "insert to start, right after another\ttuned: %s\t%s\t\n", tuned, r.AfterTuned)
	return t.Flush()
}

func (p pace) String() string { return fmt.Sprintf("cooldown %s, poll %s", p.cooldown, p.poll) }

func (r rate) String() string {
	return fmt.Sprintf("%.0f jobs/s (%d in %.1f s)", r.PerSecond, r.Jobs, r.Seconds)
}

func (l latencies) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, max %.1f ms (%d)", l.P50, l.P99, l.Max, l.Samples)
}
