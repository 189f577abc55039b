package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom/internal/membridge/registry"
	"github.com/bloom-runtime/bloom/internal/membridge/store"
)

func TestProjectsByHandAndByHeartbeatAreMerged(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		manual := must[registry.Project](t)(s.CreateProject(t.Context(), "by-hand"))
		if _, err := s.CreateProject(t.Context(), "by-hand"); !errors.Is(err, registry.ErrExists) {
			t.Errorf("second create: %v", err)
		}
		made := clock.Now()
		clock.move(time.Second)
		heartbeat := func(node, project, cid string) {
			must[*registry.Term](t)(s.NodeHeartbeat(t.Context(), registry.NodeHeartbeat{NodeID: node, CanonicalID: cid, ProjectID: &project}))
		}
		heartbeat("n1", "renamed-by-a-heartbeat", manual.CanonicalID)
		heartbeat("n1", "by-heartbeat", registry.CanonicalID("by-heartbeat"))
		heartbeat("n2", "by-heartbeat", registry.CanonicalID("by-heartbeat"))
		now := registry.ToSeconds(clock.Now())
		want := []registry.Project{
			{Name: "by-hand", CanonicalID: registry.CanonicalID("by-hand"), CreatedAt: ptr(registry.ToSeconds(made)), LastSeen: &now, NodesCount: 1, Source: registry.SourceManual},
			{Name: "by-heartbeat", CanonicalID: registry.CanonicalID("by-heartbeat"), CreatedAt: &now, LastSeen: &now, NodesCount: 2, Source: registry.SourceHeartbeat},
		}
		if diff := cmp.Diff(want, must[[]registry.Project](t)(s.Projects(t.Context()))); diff != "" {
			t.Error(diff)
		}
		adopted := must[registry.Project](t)(s.CreateProject(t.Context(), "by-heartbeat"))
		if adopted.Source != registry.SourceManual || adopted.NodesCount != 2 {
			t.Errorf("adopted: %+v", adopted)
		}
		if err := s.DeleteProject(t.Context(), "by-heartbeat"); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteProject(t.Context(), "by-heartbeat"); !errors.Is(err, registry.ErrNoProject) {
			t.Errorf("second delete: %v", err)
		}
	})
}
