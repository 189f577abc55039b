// Temporal measures the workflow engine Temporal (github.com/temporalio/temporal) on a
// PostgreSQL of yours, to compare our measurements with.
//
//	go run . --host 127.0.0.1 --port 5432 --user bloom --clients 16
//
// It makes two databases there, temporal and temporal_visibility, starts all of
// Temporal's services in this process, and measures two kinds of work: a workflow that
// does nothing, the least that Temporal can run, and a workflow of one activity, which
// is what a task of ours comes to: created, taken by a worker, ended with a result. Of
// each: how many a second are created and completed, and how long one that finds
// everything idle waits until its work starts.
//
// Clients, services and workers share one process, and speak gRPC on loopback. There
// are no keys and no TLS. It is a module of its own: it does not compile with the versions
// of OpenTelemetry that the product has.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"
)

// options is what to measure, and where.
type options struct {
	host     string
	port     int
	user     string
	shards   int
	clients  int
	pollers  int
	duration time.Duration
	samples  int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("temporal", flag.ContinueOnError)
	flags.StringVar(&o.host, "host", "127.0.0.1", "PostgreSQL's `address`")
	flags.IntVar(&o.port, "port", 5432, "PostgreSQL's port")
	flags.StringVar(&o.user, "user", "bloom", "a PostgreSQL `role` that may create databases without a password")
	flags.IntVar(&o.shards, "shards", 16, "Temporal's history shards")
	flags.IntVar(&o.clients, "clients", 16, "goroutines that create at once")
	flags.IntVar(&o.pollers, "pollers", 16, "long polls of the worker, for workflows and for activities each")
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "how long work is created, each time")
	flags.IntVar(&o.samples, "samples", 200, "pieces of work that find everything idle, for each latency")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.shards < 1 || o.clients < 1 || o.pollers < 2 || o.samples < 1 || o.duration <= 0 {
		return errors.New("every number must be greater than 0, --pollers than 1")
	}
	s, err := serve(ctx, o)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Fprintf(out, "Temporal %s on PostgreSQL: %d clients, %d shards\n\n", version(), o.clients, o.shards)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, work := range []string{empty, oneActivity} {
		rate, busy, err := s.throughput(ctx, work)
		if err != nil {
			return err
		}
		idle, err := s.idle(ctx, work)
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\tcreated and completed\t%s\t\n", work, rate)
		fmt.Fprintf(t, "%s\tcreate to start, under load\t%s\t\n", work, busy)
		fmt.Fprintf(t, "%s\tcreate to start, idle\t%s\t\n", work, idle)
	}
	return t.Flush()
}
