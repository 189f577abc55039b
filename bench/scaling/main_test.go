package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The parts that can be calculated by hand must match.
func TestLoadMatchesManualCalculation(t *testing.T) {
	t.Parallel()
	s := size{servers: 4, workers: 1000, tasks: 10, burst: 1, run: 20, events: 0.5, seconds: 2000, keep: 1}
	c := costs{serverTask: 1, databaseTask: 2, databaseAsk: 1, databaseSend: 1, databaseRenew: 1, connections: 5, idle: 10, waitKiB: 1024, taskKiB: 1 << 10}
	l := limits{serverCores: 1, databaseCores: 1, serverMiB: 100, connections: 100, diskGiB: 1000}
	for _, r := range simulate(s, c, l, rand.New(rand.NewPCG(3, 4))) {
		mean, most := r.use()
		// Little's law: 10 a second for about 20.5 s are 205 at once; 795 wait.
		want := map[string]float64{
			"a server's processor":        (10.0 / 4) / 1000,
			"the database's processor":    (10*2 + 795/pollSeconds + 10*3 + 205*0.5 + 205/renewSeconds) / 1000,
			"a server's memory":           (10 + 795.0/4) / 100,
			"workers":                     0.205,
			"connections of the database": 0.2,
			"the database's disk":         10 * 86400.0 / 1024 / 1000,
		}[r.name]
		if mean < want*0.93 || mean > want*1.07 || most < mean*0.999 {
			t.Errorf("%s: %.4f (most %.4f), by hand %.4f", r.name, mean, most, want)
		}
	}
}

func TestTheFirstBottleneckIsNamed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	report(&out, []*resource{{name: "one", has: 10, asked: []float64{1, 2}, first: "ones"}, {name: "other", has: 10, asked: []float64{1, 9}, first: "others"}})
	if !strings.Contains(out.String(), "First to end: other (90 % in the busiest second). Add: others.") {
		t.Error(out.String())
	}
}
