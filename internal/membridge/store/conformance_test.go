package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
	"github.com/bloom-runtime/bloom/internal/membridge/store"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func put(t *testing.T, s *store.Store, name string, patch registry.AgentPatch) registry.Agent {
	t.Helper()
	a, _, err := s.PutAgent(t.Context(), name, patch, registry.Proof{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestARegistrationIsKeptAndAnUpdateChangesOnlyWhatItGives(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		first, created, err := s.PutAgent(t.Context(), "worker-01", registry.AgentPatch{
			Status: ptr(bloom.WorkerOnline), URL: ptr("http://10.0.0.7:9"), IPAddrs: ptr([]string{"10.0.0.7"}),
			Capabilities: &registry.CapabilitiesPatch{MaxConcurrency: ptr(4), Labels: ptr([]string{"production"})},
		}, registry.Proof{})
		if err != nil || !created {
			t.Fatalf("created %v, err %v", created, err)
		}
		seen := registry.ToSeconds(clock.Now())
		want := registry.NewAgent("worker-01", clock.Now())
		want.Status, want.URL, want.IPAddrs = bloom.WorkerOnline, "http://10.0.0.7:9", []string{"10.0.0.7"}
		want.PostedAt = seen
		want.Capabilities = bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 4, Labels: []string{"production"}}
		if diff := cmp.Diff(want, first); diff != "" {
			t.Error(diff)
		}
		clock.move(time.Minute)
		second, created, err := s.PutAgent(t.Context(), "worker-01", registry.AgentPatch{
			Capabilities: &registry.CapabilitiesPatch{ClaudeCLI: ptr(false)}}, registry.Proof{})
		if err != nil || created {
			t.Fatalf("created %v, err %v", created, err)
		}
		want.Capabilities.ClaudeCLI = false
		want.PostedAt = seen + 60
		if diff := cmp.Diff(want, second); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]registry.Agent{want}, must[[]registry.Agent](t)(s.Agents(t.Context()))); diff != "" {
			t.Error(diff)
		}
	})
}

// Whoever has stolen the agent key must not fill what every list reads.
func TestTheAgentKeyMakesOnlySoManyNamesKnown(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		store.LimitNames(s, 2)
		register := func(name string, by registry.Proof) error {
			_, _, err := s.PutAgent(t.Context(), name, registry.AgentPatch{}, by)
			return err
		}
		beat := func(name string, by registry.Proof) error {
			_, err := s.NodeHeartbeat(t.Context(), registry.NodeHeartbeat{NodeID: name, CanonicalID: "c-" + name, ProjectID: ptr("p-" + name), Proof: by})
			return err
		}
		for what, call := range map[string]func(string, registry.Proof) error{"agent": register, "node": beat} {
			for i, want := range []error{nil, nil, registry.ErrFull} {
				if err := call(fmt.Sprint(i), registry.Proof{}); !errors.Is(err, want) {
					t.Errorf("%s %d: %v, want %v", what, i, err, want)
				}
			}
			if err := errors.Join(call("1", registry.Proof{}), call("of an admin", registry.Proof{Admin: true})); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if projects := must[[]registry.Project](t)(s.Projects(t.Context())); len(projects) != 3 {
			t.Errorf("%d projects, of which that of the refused node must be none", len(projects))
		}
	})
}

func TestAHeartbeatBringsAnAgentBackAndKeepsItsLoad(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		put(t, s, "a", registry.AgentPatch{Status: ptr(bloom.WorkerOffline)})
		clock.move(5 * time.Second)
		res := must[registry.HeartbeatResult](t)(s.Heartbeat(t.Context(), "a", registry.AgentPatch{Load: &registry.Load{Running: 3}}, registry.JobsReport{}, registry.Proof{}))
		if res.Agent.Status != bloom.WorkerOnline || res.Agent.Load.Running != 3 || *res.Agent.HeartbeatAt != registry.ToSeconds(clock.Now()) {
			t.Errorf("after a heartbeat: %+v", res.Agent)
		}
		if diff := cmp.Diff(res.Agent, must[registry.Agent](t)(s.Agent(t.Context(), "a"))); diff != "" {
			t.Error(diff)
		}
		if _, err := s.Heartbeat(t.Context(), "stranger", registry.AgentPatch{}, registry.JobsReport{}, registry.Proof{}); !errors.Is(err, registry.ErrNoAgent) {
			t.Errorf("heartbeat of a stranger: %v", err)
		}
	})
}

func TestDrainSurvivesRegistrationsAndHeartbeats(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		put(t, s, "a", registry.AgentPatch{})
		must[registry.Agent](t)(s.SetDrain(t.Context(), "a", true))
		put(t, s, "a", registry.AgentPatch{Status: ptr(bloom.WorkerOnline)})
		res := must[registry.HeartbeatResult](t)(s.Heartbeat(t.Context(), "a", registry.AgentPatch{}, registry.JobsReport{}, registry.Proof{}))
		if !res.Agent.Drain {
			t.Error("it is drained no more")
		}
		if a := must[registry.Agent](t)(s.SetDrain(t.Context(), "a", false)); a.Drain {
			t.Error("it is not undrained")
		}
		if _, err := s.SetDrain(t.Context(), "b", true); !errors.Is(err, registry.ErrNoAgent) {
			t.Errorf("drain of a stranger: %v", err)
		}
	})
}

func TestADeletedAgentIsGoneAndItsOpenJobsFail(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		put(t, s, "a", registry.AgentPatch{})
		addJob(t, s, "j1", "a")
		put(t, s, "stays", registry.AgentPatch{})
		must[registry.Agent](t)(s.SetDrain(t.Context(), "stays", true))
		levels := func(want map[string]bool) {
			t.Helper()
			if d := cmp.Diff(want, must[map[string]bool](t)(s.DrainLevels(t.Context(), []string{"a", "stays"}))); d != "" {
				t.Error(d)
			}
		}
		levels(map[string]bool{"a": false, "stays": true})
		if err := s.DeleteAgent(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		levels(map[string]bool{"stays": true})
		if err := s.DeleteAgent(t.Context(), "a"); !errors.Is(err, registry.ErrNoAgent) {
			t.Errorf("second delete: %v", err)
		}
		if _, err := s.Agent(t.Context(), "a"); !errors.Is(err, registry.ErrNoAgent) {
			t.Errorf("get: %v", err)
		}
		if j := must[registry.Job](t)(s.Job(t.Context(), "j1")); j.Status != registry.JobFailed || j.FinishedAt == nil {
			t.Errorf("job of a removed agent: %+v", j)
		}
	})
}

func TestProjectsByHandAndByHeartbeatAreMerged(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		manual := must[registry.Project](t)(s.CreateProject(t.Context(), "by-hand"))
		if _, err := s.CreateProject(t.Context(), "by-hand"); !errors.Is(err, registry.ErrExists) {
			t.Errorf("second create: %v", err)
		}
		made := clock.Now()
		clock.move(time.Second)
		beat := func(node, project, cid string) {
			must[*registry.Term](t)(s.NodeHeartbeat(t.Context(), registry.NodeHeartbeat{NodeID: node, CanonicalID: cid, ProjectID: &project}))
		}
		beat("n1", "renamed-by-a-heartbeat", manual.CanonicalID)
		beat("n1", "by-beat", registry.CanonicalID("by-beat"))
		beat("n2", "by-beat", registry.CanonicalID("by-beat"))
		now := registry.ToSeconds(clock.Now())
		want := []registry.Project{
			{Name: "by-beat", CanonicalID: registry.CanonicalID("by-beat"), CreatedAt: &now, LastSeen: &now, NodesCount: 2, Source: registry.SourceHeartbeat},
			{Name: "by-hand", CanonicalID: registry.CanonicalID("by-hand"), CreatedAt: ptr(registry.ToSeconds(made)), LastSeen: &now, NodesCount: 1, Source: registry.SourceManual},
		}
		if diff := cmp.Diff(want, must[[]registry.Project](t)(s.Projects(t.Context()))); diff != "" {
			t.Error(diff)
		}
		adopted := must[registry.Project](t)(s.CreateProject(t.Context(), "by-beat"))
		if adopted.Source != registry.SourceManual || adopted.NodesCount != 2 {
			t.Errorf("adopted: %+v", adopted)
		}
		if err := s.DeleteProject(t.Context(), "by-beat"); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteProject(t.Context(), "by-beat"); !errors.Is(err, registry.ErrNoProject) {
			t.Errorf("second delete: %v", err)
		}
	})
}

func TestANodesHeartbeatKeepsWhatItDoesNotGive(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		start := registry.ToSeconds(clock.Now())
		full := registry.NodeHeartbeat{NodeID: "n", CanonicalID: "c", ObsCount: ptr(int64(7)), DBSHA: ptr("abc"),
			IPAddrs: ptr([]string{"10.1.1.1"}), ProjectID: ptr("p"), AgentVersion: ptr("1.2")}
		must[*registry.Term](t)(s.NodeHeartbeat(t.Context(), full))
		clock.move(time.Second)
		must[*registry.Term](t)(s.NodeHeartbeat(t.Context(), registry.NodeHeartbeat{NodeID: "n", CanonicalID: "c", ObsCount: ptr(int64(8))}))
		want := []registry.Node{{NodeID: "n", CanonicalID: "c", Role: registry.RoleUnknown, ObsCount: ptr(int64(8)), DBSHA: "abc",
			IPAddrs: []string{"10.1.1.1"}, ProjectID: ptr("p"), AgentVersion: "1.2", RegisteredAt: start, LastSeen: start + 1}}
		if diff := cmp.Diff(want, must[registry.Leadership](t)(s.Leadership(t.Context(), "c")).Nodes); diff != "" {
			t.Error(diff)
		}
	})
}

func node(t *testing.T, s *store.Store, cid, id string) *registry.Term {
	t.Helper()
	return must[*registry.Term](t)(s.NodeHeartbeat(t.Context(), registry.NodeHeartbeat{NodeID: id, CanonicalID: cid}))
}

func TestSelectingAgainRaisesTheEpochAndKeepsTheHistory(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		sel := registry.Selection{CanonicalID: "c", PrimaryNodeID: "n1", LeaseSeconds: 60, IssuedBy: "admin"}
		if term := node(t, s, "c", "n1"); term != nil {
			t.Errorf("a term before any selection: %+v", term)
		}
		node(t, s, "c", "n2")
		first := must[registry.Term](t)(s.Select(t.Context(), sel))
		issued := registry.ToSeconds(clock.Now())
		if diff := cmp.Diff(registry.Term{PrimaryNodeID: "n1", Epoch: 1, LeaseSeconds: 60, IssuedBy: "admin",
			IssuedAt: issued, ExpiresAt: issued + 60}, first); diff != "" {
			t.Error(diff)
		}
		clock.move(time.Second)
		sel.PrimaryNodeID = "n2"
		second := must[registry.Term](t)(s.Select(t.Context(), sel))
		if second.Epoch != 2 {
			t.Errorf("second epoch: %d", second.Epoch)
		}
		sel.ExpectedEpoch = ptr(int64(1))
		if _, err := s.Select(t.Context(), sel); !errors.Is(err, registry.ErrEpoch) {
			t.Errorf("selection on an old epoch: %v", err)
		}
		if diff := cmp.Diff(&second, node(t, s, "c", "n1")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]registry.Term{second, first}, must[[]registry.Term](t)(s.History(t.Context(), "c", 0))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEpochsGoOnGrowingAfterTheProjectWasDeleted(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		p := must[registry.Project](t)(s.CreateProject(t.Context(), "p"))
		sel := registry.Selection{CanonicalID: p.CanonicalID, PrimaryNodeID: "n", LeaseSeconds: 60, IssuedBy: "admin"}
		node(t, s, p.CanonicalID, "n")
		superseded := must[registry.Term](t)(s.Select(t.Context(), sel))
		must[registry.Term](t)(s.Select(t.Context(), sel))
		if err := s.DeleteProject(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		if h := must[[]registry.Term](t)(s.History(t.Context(), p.CanonicalID, 9)); len(h) != 2 || h[1] != superseded {
			t.Errorf("the deletion made of the history %+v", h)
		}
		if term := node(t, s, p.CanonicalID, "n"); term == nil || term.Epoch != 2 || registry.RoleOf(term, "n", s.Now()) != registry.RoleUnknown {
			t.Errorf("the project that came back is led under %+v", term)
		}
		if term := must[registry.Term](t)(s.Select(t.Context(), sel)); term.Epoch != 3 {
			t.Errorf("epoch after the project came back: %d", term.Epoch)
		}
	})
}

func TestWhatIsBoundIsWrittenByItsOwnTokenOnly(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		mine, theirs := registry.Proof{Token: registry.TokenDigest("mine")}, registry.Proof{Token: registry.TokenDigest("theirs")}
		write := func(by registry.Proof) (err, beat, node error) {
			_, _, err = s.PutAgent(t.Context(), "a", registry.AgentPatch{URL: ptr("http://" + by.Token)}, by)
			_, beat = s.Heartbeat(t.Context(), "a", registry.AgentPatch{}, registry.JobsReport{}, by)
			_, node = s.NodeHeartbeat(t.Context(), registry.NodeHeartbeat{NodeID: "n", CanonicalID: "c", AgentVersion: ptr(by.Token), Proof: by})
			return err, beat, node
		}
		for _, step := range []struct {
			what string
			by   registry.Proof
			want error
		}{
			{"a first write without a token", registry.Proof{}, nil}, {"the first token", mine, nil}, {"the same", mine, nil},
			{"another", theirs, registry.ErrOtherToken}, {"none", registry.Proof{}, registry.ErrNeedsToken}, {"the same again", mine, nil},
			{"an admin", registry.Proof{Admin: true}, nil}, {"another after the admin", theirs, nil}, {"the first one now", mine, registry.ErrOtherToken},
			{"an admin with a token", registry.Proof{Admin: true, Token: mine.Token}, nil}, {"that token", mine, nil},
		} {
			put, beat, node := write(step.by)
			for _, err := range []error{put, beat, node} {
				if !errors.Is(err, step.want) {
					t.Fatalf("%s: %v, %v, %v", step.what, put, beat, node)
				}
			}
		}
		if a := must[registry.Agent](t)(s.Agent(t.Context(), "a")); a.URL != "http://"+mine.Token || !a.Bound {
			t.Errorf("the agent is %+v", a)
		}
	})
}

func TestSelectionsAtOnceGetOneEpochEachAndTheHighestStands(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		const racers = 20
		for i := range racers {
			node(t, s, "c", fmt.Sprint("n", i))
		}
		answers := make([]registry.Term, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				answers[i], _ = s.Select(t.Context(), registry.Selection{CanonicalID: "c",
					PrimaryNodeID: fmt.Sprint("n", i), LeaseSeconds: 60, IssuedBy: "admin"})
			})
		}
		wg.Wait()
		slices.SortFunc(answers, func(a, b registry.Term) int { return int(b.Epoch - a.Epoch) })
		if diff := cmp.Diff(answers, must[[]registry.Term](t)(s.History(t.Context(), "c", 200))); diff != "" {
			t.Errorf("what was answered is not what happened: %s", diff)
		}
		if answers[0].Epoch != racers {
			t.Errorf("highest epoch %d, want %d", answers[0].Epoch, racers)
		}
		if diff := cmp.Diff(&answers[0], must[registry.Leadership](t)(s.Leadership(t.Context(), "c")).Current); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOfConditionalSelectionsAtOnceExactlyOneWins(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		node(t, s, "c", "n")
		errs := make([]error, 10)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = s.Select(t.Context(), registry.Selection{CanonicalID: "c", PrimaryNodeID: "n",
					LeaseSeconds: 60, IssuedBy: "admin", ExpectedEpoch: ptr(int64(0))})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, registry.ErrEpoch):
				t.Errorf("a loser was told: %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d winners", won)
		}
	})
}

func addJob(t *testing.T, s *store.Store, id, agent string) {
	t.Helper()
	err := s.AddJob(t.Context(), registry.Job{ID: id, Kind: registry.JobPush, Project: "p", CanonicalID: "c", Agent: agent, Status: registry.JobQueued})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAJobIsHandedOutUntilItsAgentReportsAndTheFirstReportStands(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		put(t, s, "a", registry.AgentPatch{})
		put(t, s, "b", registry.AgentPatch{})
		addJob(t, s, "j1", "a")
		clock.move(time.Second)
		addJob(t, s, "j2", "a")
		if got := must[[]string](t)(s.AgentsWithOrders(t.Context())); !slices.Equal(got, []string{"a"}) {
			t.Errorf("agents with orders: %v", got)
		}
		beat := func(name string, reports ...registry.JobReport) []string {
			res := must[registry.HeartbeatResult](t)(s.Heartbeat(t.Context(), name, registry.AgentPatch{}, registry.JobsReport{Reports: reports}, registry.Proof{}))
			ids := []string{}
			for _, j := range res.Jobs {
				ids = append(ids, j.ID+" "+string(j.Status))
			}
			return ids
		}
		for range 2 {
			if diff := cmp.Diff([]string{"j1 delivered", "j2 delivered"}, beat("a")); diff != "" {
				t.Error(diff)
			}
		}
		if got := must[[]string](t)(s.AgentsWithOrders(t.Context())); len(got) != 0 {
			t.Errorf("agents with orders after delivery: %v", got)
		}
		done := registry.JobReport{JobID: "j1", Status: registry.JobCompleted, Detail: "12 rows"}
		beat("b", done)
		if diff := cmp.Diff([]string{"j2 delivered"}, beat("a", done, registry.JobReport{JobID: "nonsense", Status: registry.JobFailed})); diff != "" {
			t.Errorf("after a report: %s", diff)
		}
		beat("a", registry.JobReport{JobID: "j1", Status: registry.JobFailed})
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
		// One that its agent works on is heard of.
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

func TestCountsAndTheMarkOfLife(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		if before := must[time.Time](t)(s.MarkAlive(t.Context())); !before.IsZero() {
			t.Errorf("alive before the first: %v", before)
		}
		first := clock.Now()
		clock.move(-time.Minute)
		must[time.Time](t)(s.MarkAlive(t.Context()))
		if before := must[time.Time](t)(s.MarkAlive(t.Context())); !before.Equal(first) {
			t.Errorf("the mark went back to %v", before)
		}
		put(t, s, "a", registry.AgentPatch{})
		must[registry.Project](t)(s.CreateProject(t.Context(), "p"))
		if diff := cmp.Diff(registry.Counts{Projects: 1, Agents: 1}, must[registry.Counts](t)(s.Counts(t.Context()))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestManyHeartbeatsAtOnceAreAllKept(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		const agents, beats = 20, 10
		var wg sync.WaitGroup
		for i := range agents {
			name := fmt.Sprint("a", i)
			put(t, s, name, registry.AgentPatch{})
			for range beats {
				wg.Go(func() {
					// A neighbour's failure in the same commit must not touch the others.
					_, _ = s.Heartbeat(t.Context(), "stranger", registry.AgentPatch{}, registry.JobsReport{}, registry.Proof{})
					if _, err := s.Heartbeat(t.Context(), name, registry.AgentPatch{Load: &registry.Load{Running: i}}, registry.JobsReport{}, registry.Proof{}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		for _, a := range must[[]registry.Agent](t)(s.Agents(t.Context())) {
			if a.HeartbeatAt == nil || fmt.Sprint("a", a.Load.Running) != a.Name {
				t.Errorf("lost: %+v", a)
			}
		}
	})
}
