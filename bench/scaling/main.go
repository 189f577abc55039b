// Scaling says which resource ends first when there are many servers and workers, from
// costs that were measured on a small machine. It plays arrivals of tasks and the lives of
// workers second by second, adds up what each resource has to do, and prints the mean and
// the busiest second as a share of what there is.
//
//	go run ./scaling -servers 100 -workers 100000 -tasks 300
//
// The costs are flags: measure yours with `go run . costs` (docs/development/scaling.md). It
// does not know networks, disks that become slow when they are full, or plans that change.
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"text/tabwriter"
)

// size is what is simulated.
type size struct {
	servers, workers int
	tasks            float64 // created a second, on average
	burst            float64 // how much busier the busiest minute is
	run              float64 // seconds that claude takes, on average
	events           float64 // requests with events a second and running task
	readers          int     // people and programs that follow a stream
	seconds          int
	keep             float64 // days
}

// costs were measured; times are milliseconds of one core.
type costs struct {
	serverTask, databaseTask   float64 // from its creation to its completion
	serverAsk, databaseAsk     float64 // a claim that finds nothing
	serverEvents, databaseSend float64 // a request with events
	serverRenew, databaseRenew float64 // a lease's renewal
	serverHear, hearTask       float64 // another server's request with events, and its task
	serverNotify               float64 // a request with events passed on to one stream
	connections                int     // to the database, of each server
	waitKiB, streamKiB, idle   float64 // memory of a server: KiB, KiB, MiB
	taskKiB                    float64 // in the database
}

// limits are what there is.
type limits struct {
	serverCores, databaseCores float64
	serverMiB                  float64
	connections                int
	diskGiB                    float64
}

// resource is something that can end, and what was asked of it, second by second.
type resource struct {
	name  string
	has   float64
	asked []float64
	first string // what to add
}

func main() {
	var s size
	var c costs
	var l limits
	flag.IntVar(&s.servers, "servers", 100, "servers over one database")
	flag.IntVar(&s.workers, "workers", 100_000, "workers, of one slot each")
	flag.Float64Var(&s.tasks, "tasks", 300, "tasks created a second")
	flag.Float64Var(&s.burst, "burst", 3, "how much more is created in the busiest minute")
	flag.Float64Var(&s.run, "run", 300, "seconds that a task runs")
	flag.Float64Var(&s.events, "events", 0.5, "requests with events a second and running task")
	flag.IntVar(&s.readers, "readers", 1000, "streams that are followed")
	flag.IntVar(&s.seconds, "seconds", 3600, "seconds to simulate")
	flag.Float64Var(&s.keep, "keep", 30, "days that tasks are kept")
	flag.Float64Var(&c.serverTask, "server-task", 0.29, "ms of a server's core a task")
	flag.Float64Var(&c.databaseTask, "database-task", 0.30, "ms of the database's core a task")
	flag.Float64Var(&c.serverAsk, "server-ask", 0.09, "ms of a server's core a claim that finds nothing")
	flag.Float64Var(&c.databaseAsk, "database-ask", 0.03, "ms of the database's core a claim that finds nothing")
	flag.Float64Var(&c.serverEvents, "server-events", 0.33, "ms of a server's core a request with events")
	flag.Float64Var(&c.databaseSend, "database-events", 1.06, "ms of the database's core a request with events")
	flag.Float64Var(&c.serverRenew, "server-renew", 0.12, "ms of a server's core a renewal")
	flag.Float64Var(&c.databaseRenew, "database-renew", 0.06, "ms of the database's core a renewal")
	flag.Float64Var(&c.serverHear, "server-hear", 0.015, "ms of a server's core a request with events at another server")
	flag.Float64Var(&c.hearTask, "server-hear-task", 0.11, "ms of a server's core a task of another server, from its creation to its completion")
	flag.Float64Var(&c.serverNotify, "server-notify", 0.03, "ms of a server's core for each request with events and each stream that it notifies")
	flag.IntVar(&c.connections, "server-connections", 18, "connections of a server to the database")
	flag.Float64Var(&c.waitKiB, "wait-kib", 80, "KiB of a server's memory a waiting worker")
	flag.Float64Var(&c.streamKiB, "stream-kib", 39, "KiB of a server's memory a stream")
	flag.Float64Var(&c.idle, "idle-mib", 47, "MiB of an idle server")
	flag.Float64Var(&c.taskKiB, "task-kib", 2, "KiB of the database a task, without its events")
	flag.Float64Var(&l.serverCores, "server-cores", 2, "cores of a server")
	flag.Float64Var(&l.databaseCores, "database-cores", 32, "cores of the database")
	flag.Float64Var(&l.serverMiB, "server-mib", 1024, "MiB of memory of a server")
	flag.IntVar(&l.connections, "connections", 1000, "connections that the database takes")
	flag.Float64Var(&l.diskGiB, "disk-gib", 4096, "GiB of the database's disk")
	flag.Parse()
	if flag.NArg() > 0 || s.servers < 1 || s.workers < 0 || s.tasks < 0 || s.run <= 0 || s.seconds < 1 || s.burst < 1 {
		fmt.Fprintln(os.Stderr, "scaling: at least one server and one second, nothing negative, and a burst of 1 or more")
		os.Exit(2)
	}
	report(os.Stdout, simulate(s, c, l, rand.New(rand.NewPCG(1, 2)))) //nolint:gosec // a simulation is to repeat itself
}

const (
	pollSeconds  = 60.0  // how long a claim waits
	renewSeconds = 100.0 // a third of the default lease
)

// simulate plays it. A task is created on some server; every server hears of it and lets
// one of its waiting workers ask, of whom one gets it.
func simulate(s size, c costs, l limits, random *rand.Rand) []*resource {
	server := &resource{name: "a server's processor", has: l.serverCores * 1000, first: "servers, while the database has room; fewer workers a server"}
	database := &resource{name: "the database's processor", has: l.databaseCores * 1000, first: "cores of the database; fewer servers, of more cores each"}
	memory := &resource{name: "a server's memory", has: l.serverMiB, first: "memory, or servers"}
	slots := &resource{name: "workers", has: float64(s.workers), first: "workers"}
	open := &resource{name: "connections of the database", has: float64(l.connections), first: "max_connections; fewer servers"}
	disk := &resource{name: "the database's disk", has: l.diskGiB, first: "retention (--keep-…), or disk"}
	n := float64(s.servers)
	ends := make([]int, s.seconds+1) // how many runs end in each second
	running, queued := 0, 0
	for second := range s.seconds {
		running -= ends[second]
		rate := s.tasks
		if s.seconds >= 180 && second/60 == s.seconds/120 { // the minute in the middle
			rate *= s.burst
		}
		created := poisson(random, rate)
		queued += created
		begun := min(queued, s.workers-running)
		queued -= begun
		running += begun
		for range begun {
			if at := second + 1 + int(s.run*random.ExpFloat64()); at <= s.seconds-1 {
				ends[at]++
			}
		}
		waiting := float64(s.workers - running)
		// A task that somebody waits for makes a worker of each server ask.
		askers := math.Min(n, waiting) - 1
		asks := waiting/pollSeconds + float64(created)*math.Max(0, askers)
		renewals, sends := float64(running)/renewSeconds, float64(running)*s.events
		notified := math.Min(float64(s.readers), float64(running)) * s.events
		database.asked = append(database.asked, float64(created)*c.databaseTask+asks*c.databaseAsk+sends*c.databaseSend+renewals*c.databaseRenew)
		server.asked = append(server.asked, (float64(created)*c.serverTask+asks*c.serverAsk+sends*c.serverEvents+renewals*c.serverRenew+notified*c.serverNotify)/n+float64(created)*c.hearTask+sends*c.serverHear)
		memory.asked = append(memory.asked, c.idle+(waiting*c.waitKiB+float64(s.readers)*c.streamKiB)/1024/n)
		slots.asked = append(slots.asked, float64(running+queued))
		open.asked = append(open.asked, n*float64(c.connections))
		disk.asked = append(disk.asked, s.tasks*86400*s.keep*c.taskKiB/(1<<20))
	}
	return []*resource{server, database, memory, slots, open, disk}
}

// poisson is how many of something happen that happens mean times on average.
func poisson(random *rand.Rand, mean float64) int {
	if mean > 50 { // the normal distribution is as good
		return max(0, int(math.Round(mean+math.Sqrt(mean)*random.NormFloat64())))
	}
	n, p, limit := 0, 1.0, math.Exp(-mean)
	for {
		p *= random.Float64()
		if p <= limit {
			return n
		}
		n++
	}
}

// use is the mean and the most of a resource, as a share of what there is.
func (r *resource) use() (mean, most float64) {
	for _, v := range r.asked {
		mean += v / float64(len(r.asked))
		most = max(most, v)
	}
	return mean / r.has, most / r.has
}

func report(out io.Writer, all []*resource) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "mean\tbusiest second\tresource\t")
	first, worst := all[0], 0.0
	for _, r := range all {
		mean, most := r.use()
		fmt.Fprintf(t, "%.0f %%\t%.0f %%\t%s\t\n", 100*mean, 100*most, r.name)
		if most > worst {
			first, worst = r, most
		}
	}
	t.Flush()
	fmt.Fprintf(out, "\nFirst to end: %s (%.0f %% in the busiest second). Add: %s.\n", first.name, 100*worst, first.first)
}
