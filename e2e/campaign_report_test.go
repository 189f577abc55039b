package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// verify compares what was acknowledged to the clients with what is stored. The invariants,
// including the replay of the audit, are checked when the harness is closed.
func (c *campaign) verify(t *testing.T, runs string) {
	t.Helper()
	if len(c.created) != c.how.tasks {
		t.Errorf("%d tasks were acknowledged under different ids, %d were posted", len(c.created), c.how.tasks)
	}
	stats, err := c.api.Stats(t.Context())
	if err != nil || int(stats.Tasks.Total) != c.how.tasks || int(stats.Tasks.ByStatus[bloom.TaskCompleted]) != c.how.tasks || stats.Leases.Active != 0 {
		t.Errorf("stats = %s, %v; want %d completed tasks and no active lease", storable.MustJSON(stats), err, c.how.tasks)
	}
	for id, word := range c.created {
		results, err := c.api.Results(t.Context(), id)
		ended := slices.DeleteFunc(results, func(r bloom.Result) bool { return r.Status != bloom.OutcomeSuccess })
		if err != nil || len(ended) != 1 || ended[0].Output == nil || *ended[0].Output != word {
			t.Errorf("task %s has the outcomes %s, %v; want %q once", id, storable.MustJSON(ended), err, word)
		}
	}
	log, err := os.ReadFile(runs)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(log))
	again := len(words) - len(slices.Compact(slices.Sorted(slices.Values(words))))
	t.Logf("%d tasks acknowledged, %d leases, %d runs of which %d were not the task's first", len(c.created), stats.Leases.Total, len(words), again)
}

// report prints how long each fault lasted for clients that create tasks and for workers that claim
// them: from the fault (for PostgreSQL: from its return) to the first success.
func (c *campaign) report(t *testing.T) {
	t.Helper()
	var claims []time.Time
	for entry, err := range c.api.AllAudit(t.Context(), bloom.AuditQuery{Action: audit.ActionTaskLeased}) {
		if err != nil {
			t.Fatal(err)
		}
		claims = append(claims, time.UnixMilli(entry.Timestamp))
	}
	slices.SortFunc(claims, time.Time.Compare)
	felt := map[string]*[3][]time.Duration{}
	for _, f := range c.faults {
		if felt[f.kind] == nil {
			felt[f.kind] = &[3][]time.Duration{}
		}
		from := f.at
		if f.replica < 0 {
			from = f.back
		}
		of := felt[f.kind]
		of[0] = append(of[0], f.back.Sub(f.at))
		if i := slices.IndexFunc(c.success, func(m moment) bool { return m.at.After(from) && m.replica != f.replica }); i >= 0 {
			of[1] = append(of[1], c.success[i].at.Sub(from))
		}
		if i := slices.IndexFunc(claims, from.Before); i >= 0 {
			of[2] = append(of[2], claims[i].Sub(from))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-28s %5s  %-22s %-22s %s\n", "fault", "times", "down p50/max", "next create p50/max", "next claim p50/max")
	for _, kind := range slices.Sorted(maps.Keys(felt)) {
		of := felt[kind]
		fmt.Fprintf(&b, "%-28s %5d  %-22s %-22s %s\n", kind, len(of[0]), spread(of[0]), spread(of[1]), spread(of[2]))
	}
	t.Log(b.String())
}

func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "never"
	}
	slices.Sort(d)
	return fmt.Sprintf("%s / %s", d[len(d)/2].Round(time.Millisecond), d[len(d)-1].Round(time.Millisecond))
}
