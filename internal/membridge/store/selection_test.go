package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom/internal/membridge/registry"
	"github.com/bloom-runtime/bloom/internal/membridge/store"
)

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

func TestALaterSelectionHasALaterTimeThoughTheClockWentBack(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		sel := registry.Selection{CanonicalID: "c", PrimaryNodeID: "n1", LeaseSeconds: 60, IssuedBy: "admin"}
		node(t, s, "c", "n1")
		node(t, s, "c", "n2")
		first := must[registry.Term](t)(s.Select(t.Context(), sel))
		clock.move(-10 * time.Minute)
		sel.PrimaryNodeID = "n2"
		for range 2 {
			next := must[registry.Term](t)(s.Select(t.Context(), sel))
			if next.IssuedAt <= first.IssuedAt || next.ExpiresAt <= next.IssuedAt {
				t.Fatalf("epoch %d is of %f to %f, after epoch %d of %f", next.Epoch, next.IssuedAt, next.ExpiresAt, first.Epoch, first.IssuedAt)
			}
			for n, want := range map[string]registry.Role{"n1": registry.RoleSecondary, "n2": registry.RolePrimary} {
				if term := node(t, s, "c", n); registry.RoleOf(term, n, s.Now()) != want {
					t.Errorf("%s is not %s under %+v", n, want, term)
				}
			}
			first = next
		}
	})
}

// A selection made with a clock that was years ahead must not put the next ones there.
func TestASelectionAfterOneFromTheFutureIsOfThePresent(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, clock *handClock) {
		sel := registry.Selection{CanonicalID: "c", PrimaryNodeID: "n1", LeaseSeconds: 60, IssuedBy: "admin"}
		node(t, s, "c", "n1")
		clock.move(10 * 365 * 24 * time.Hour)
		wrong := must[registry.Term](t)(s.Select(t.Context(), sel))
		clock.move(-10 * 365 * 24 * time.Hour)
		next := must[registry.Term](t)(s.Select(t.Context(), sel))
		if now := registry.MillisToSeconds(s.Now().UnixMilli()); next.IssuedAt != now || next.ExpiresAt != now+60 || next.Epoch != wrong.Epoch+1 {
			t.Errorf("epoch %d is of %f to %f; it is %f", next.Epoch, next.IssuedAt, next.ExpiresAt, now)
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

func TestABoundNameIsWrittenOnlyWithItsToken(t *testing.T) {
	overBoth(t, func(t *testing.T, s *store.Store, _ *handClock) {
		mine, theirs := registry.Proof{Token: registry.TokenDigest("mine")}, registry.Proof{Token: registry.TokenDigest("theirs")}
		write := func(by registry.Proof) (err, heartbeat, node error) {
			_, _, err = s.PutAgent(t.Context(), "a", registry.AgentPatch{URL: ptr("http://" + by.Token)}, by)
			_, heartbeat = s.Heartbeat(t.Context(), "a", registry.AgentPatch{}, registry.JobsReport{}, by)
			_, node = s.NodeHeartbeat(t.Context(), registry.NodeHeartbeat{NodeID: "n", CanonicalID: "c", AgentVersion: ptr(by.Token), Proof: by})
			return err, heartbeat, node
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
			put, heartbeat, node := write(step.by)
			for _, err := range []error{put, heartbeat, node} {
				if !errors.Is(err, step.want) {
					t.Fatalf("%s: %v, %v, %v", step.what, put, heartbeat, node)
				}
			}
		}
		if a := must[registry.Agent](t)(s.Agent(t.Context(), "a")); a.URL != "http://"+mine.Token || !a.Bound {
			t.Errorf("the agent is %+v", a)
		}
	})
}

func TestConcurrentSelectionsGetOneEpochEachAndTheHighestCounts(t *testing.T) {
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
				t.Errorf("the loser gets: %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d winners", won)
		}
	})
}
