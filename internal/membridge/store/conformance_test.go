package store_test

import (
	"errors"
	"fmt"
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
		if diff := cmp.Diff([]registry.Agent{want}, must[[]registry.Agent](t)(s.Agents(t.Context(), "", 0))); diff != "" {
			t.Error(diff)
		}
	})
}

// A stolen agent key must not fill the lists.
func TestTheAgentKeyMakesOnlySoManyNamesKnown(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		store.LimitNames(s, 2)
		register := func(name string, by registry.Proof) error {
			_, _, err := s.PutAgent(t.Context(), name, registry.AgentPatch{}, by)
			return err
		}
		heartbeat := func(name string, by registry.Proof) error {
			_, err := s.NodeHeartbeat(t.Context(), registry.NodeHeartbeat{NodeID: name, CanonicalID: "c-" + name, ProjectID: ptr("p-" + name), Proof: by})
			return err
		}
		for what, call := range map[string]func(string, registry.Proof) error{"agent": register, "node": heartbeat} {
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

func TestCountsAndMarkAlive(t *testing.T) {
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
		const agents, heartbeats = 20, 10
		var wg sync.WaitGroup
		for i := range agents {
			name := fmt.Sprint("a", i)
			put(t, s, name, registry.AgentPatch{})
			for range heartbeats {
				wg.Go(func() {
					// A failed write in the same commit must not affect the others.
					_, _ = s.Heartbeat(t.Context(), "stranger", registry.AgentPatch{}, registry.JobsReport{}, registry.Proof{})
					if _, err := s.Heartbeat(t.Context(), name, registry.AgentPatch{Load: &registry.Load{Running: i}}, registry.JobsReport{}, registry.Proof{}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		for _, a := range must[[]registry.Agent](t)(s.Agents(t.Context(), "", 0)) {
			if a.HeartbeatAt == nil || fmt.Sprint("a", a.Load.Running) != a.Name {
				t.Errorf("lost: %+v", a)
			}
		}
	})
}
