package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom/internal/membridge/registry"
	"github.com/bloom-runtime/bloom/internal/membridge/store"
)

func addJob(t *testing.T, s *store.Store, id, agent string) {
	t.Helper()
	err := s.AddJob(t.Context(), registry.Job{ID: id, Kind: registry.JobPush, Project: "p", CanonicalID: "c", Agent: agent, Status: registry.JobQueued})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAJobIsSentUntilItsAgentReportsAndTheFirstReportCounts(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		put(t, s, "a", registry.AgentPatch{})
		put(t, s, "b", registry.AgentPatch{})
		addJob(t, s, "j1", "a")
		clock.move(time.Second)
		addJob(t, s, "j2", "a")
		if got := must[[]string](t)(s.AgentsWithQueuedJobs(t.Context())); !slices.Equal(got, []string{"a"}) {
			t.Errorf("agents with orders: %v", got)
		}
		heartbeat := func(name string, reports ...registry.JobReport) []string {
			res := must[registry.HeartbeatResult](t)(s.Heartbeat(t.Context(), name, registry.AgentPatch{}, registry.JobsReport{Reports: reports}, registry.Proof{}))
			ids := []string{}
			for _, j := range res.Jobs {
				ids = append(ids, j.ID+" "+string(j.Status))
			}
			return ids
		}
		for range 2 {
			if diff := cmp.Diff([]string{"j1 delivered", "j2 delivered"}, heartbeat("a")); diff != "" {
				t.Error(diff)
			}
		}
		if got := must[[]string](t)(s.AgentsWithQueuedJobs(t.Context())); len(got) != 0 {
			t.Errorf("agents with orders after delivery: %v", got)
		}
		done := registry.JobReport{JobID: "j1", Status: registry.JobCompleted, Detail: "12 rows"}
		heartbeat("b", done)
		if diff := cmp.Diff([]string{"j2 delivered"}, heartbeat("a", done, registry.JobReport{JobID: "nonsense", Status: registry.JobFailed})); diff != "" {
			t.Errorf("after a report: %s", diff)
		}
		heartbeat("a", registry.JobReport{JobID: "j1", Status: registry.JobFailed})
		if j := must[registry.Job](t)(s.Job(t.Context(), "j1")); j.Status != registry.JobCompleted || j.Detail != "12 rows" {
			t.Errorf("the second report changed the job: %+v", j)
		}
	})
}

func TestJobsExpireAreListedNewestFirstAndTrimmed(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		for i := range 5 {
			addJob(t, s, fmt.Sprint("j", i), "a")
			clock.move(time.Second)
		}
		if n := must[int](t)(s.ExpireJobs(t.Context(), clock.Now().Add(-2500*time.Millisecond), "too late")); n != 3 {
			t.Errorf("expired %d", n)
		}
		if j := must[registry.Job](t)(s.FinishJob(t.Context(), registry.JobReport{JobID: "j0", Status: registry.JobCompleted, Detail: ""})); j.Detail != "too late" {
			t.Errorf("a final job changed: %+v", j)
		}
		if _, err := s.FinishJob(t.Context(), registry.JobReport{JobID: "none", Status: registry.JobFailed, Detail: ""}); !errors.Is(err, registry.ErrNoJob) {
			t.Errorf("unknown job: %v", err)
		}
		// A job that its agent works on counts as reported.
		if _, _, err := s.PutAgent(t.Context(), "a", registry.AgentPatch{}, registry.Proof{}); err != nil {
			t.Fatal(err)
		}
		must[registry.HeartbeatResult](t)(s.Heartbeat(t.Context(), "a", registry.AgentPatch{}, registry.JobsReport{}, registry.Proof{}))
		clock.move(time.Minute)
		must[registry.HeartbeatResult](t)(s.Heartbeat(t.Context(), "a", registry.AgentPatch{}, registry.JobsReport{Held: []string{"j4", "j0", "none"}}, registry.Proof{}))
		if n := must[int](t)(s.ExpireJobs(t.Context(), clock.Now().Add(-30*time.Second), "too late")); n != 1 {
			t.Errorf("expired %d of those that nothing was heard of, want j3", n)
		}
		ids := func(f registry.JobFilter) (ids []string) {
			for _, j := range must[[]registry.Job](t)(s.Jobs(t.Context(), f)) {
				ids = append(ids, j.ID)
			}
			return ids
		}
		if diff := cmp.Diff([]string{"j4", "j3"}, ids(registry.JobFilter{Limit: 2})); diff != "" {
			t.Error(diff)
		}
		if got := ids(registry.JobFilter{Project: "other"}); len(got) != 0 {
			t.Errorf("jobs of another project: %v", got)
		}
		if n := must[int](t)(s.TrimJobs(t.Context(), 3)); n != 2 {
			t.Errorf("trimmed %d", n)
		}
		if diff := cmp.Diff([]string{"j4", "j3", "j2"}, ids(registry.JobFilter{Project: "p"})); diff != "" {
			t.Error(diff)
		}
	})
}
