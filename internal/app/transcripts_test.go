package app_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/config"
)

func TestRemovedEventsAreServedFromTranscripts(t *testing.T) {
	everywhere(t, func(t *testing.T, s *objectServer) {
		s.cfg.RunTranscripts = "auto"
		s.start()
		made, err := s.api.Submit(t.Context(), bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"})
		must(t, err)
		s.run(made.ID, 700, bloom.OutcomeError)
		before := s.stream(made.ID, 0)
		if len(before) < 703 {
			t.Fatalf("%d events", len(before))
		}
		stop := func() { s.stop(); s.age(2 * time.Hour) }
		stop()
		s.cfg.RetentionEvents = config.Age(time.Hour)
		s.start()
		s.removed(made.ID)
		resumptions := func(all []string) {
			t.Helper()
			for _, after := range []int{0, 1, 255, 256, 300, len(before) - 1, len(before), len(all) - 1, len(all)} {
				if got := s.stream(made.ID, int64(after)); !slices.Equal(got, all[after:]) {
					t.Errorf("after %d there are %d events, want %d", after, len(got), len(all)-after)
				}
			}
		}
		resumptions(before)
		// Another run continues the numbers, and the stream is continuous.
		_, err = s.api.Requeue(t.Context(), made.ID)
		must(t, err)
		s.run(made.ID, 30, bloom.OutcomeSuccess)
		all := s.stream(made.ID, 0)
		if len(all) != len(before)+33 || !slices.Equal(all[:len(before)], before) {
			t.Fatalf("%d events after another run, %d before", len(all), len(before))
		}
		resumptions(all)
		stop()
		s.start()
		s.removed(made.ID)
		resumptions(all)
		runs := s.transcripts(made.ID)
		if len(runs) != 2 || !slices.Equal(slices.Concat(runs...), all) {
			t.Errorf("%d transcripts", len(runs))
		}
		var first bloom.Event
		if err := json.Unmarshal([]byte(runs[1][0]), &first); err != nil || first.Seq != int64(len(before)+1) {
			t.Errorf("the second begins with %s, %v", runs[1][0], err)
		}
		if did, err := s.api.VerifyArtifacts(t.Context(), nil); err != nil || did.Defects() > 0 {
			t.Errorf("verified %+v, %v", did, err)
		}
		s.stop()
		if n := s.events(); n > 0 {
			t.Errorf("%d events are left in the database", n)
		}
	})
}

func TestEachAttemptHasItsTranscript(t *testing.T) {
	everywhere(t, func(t *testing.T, s *objectServer) {
		s.cfg.RunTranscripts = "always"
		s.start()
		made, err := s.api.Submit(t.Context(), bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"})
		must(t, err)
		l, err := s.api.Lease(t.Context(), made.ID, client.LeaseOptions{WorkerID: "w"})
		must(t, err)
		_, err = s.api.Release(t.Context(), made.ID, bloom.ReleaseSpec{LeaseID: l.Lease.ID, Reason: "drain"})
		must(t, err)
		s.run(made.ID, 3, bloom.OutcomeSuccess)
		s.stop() // the loop runs when the server starts
		s.start()
		for limit := time.Now().Add(5 * time.Minute); len(s.transcripts(made.ID)) < 2; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("there are no transcripts")
			}
		}
		runs := s.transcripts(made.ID)
		if all := s.stream(made.ID, 0); len(runs) != 2 || !slices.Equal(slices.Concat(runs...), all) || !strings.Contains(runs[0][len(runs[0])-1], `"released"`) {
			t.Errorf("transcripts %v of %v", runs, all)
		}
	})
}
