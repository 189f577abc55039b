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
