package worker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

// TestWhatWasCompletedDoesNotSlowTheNextClaim: the server calls a lease lost
// that was completed while the poll was under way. Only an answer that changes
// nothing may be followed by a wait; this one shortens what is held.
func TestWhatWasCompletedDoesNotSlowTheNextClaim(t *testing.T) {
	t.Parallel()
	w := &Worker{log: slog.New(slog.DiscardHandler), jobs: map[string]*job{}, told: map[string]bool{}}
	w.outbox = newOutbox(t.TempDir(), Config{}, w.log, nil, nil)
	asked := map[string]*job{"done": {}, "waits": nil}
	if !w.obey(bloom.ClaimResult{Lost: []string{"done"}}, time.Time{}, asked) {
		t.Error("a completed lease's being called lost is followed by a wait")
	}
	l := completion(bloom.Lease{ID: "waits"}, failure(bloom.ClassCrashed, "x", true), time.Time{})
	w.outbox.pending["waits"] = l
	if !w.obey(bloom.ClaimResult{Lost: []string{"waits"}}, time.Time{}, asked) || len(w.outbox.held()) != 0 {
		t.Error("an undelivered outcome's lease is still held after its loss")
	}
	if w.obey(bloom.ClaimResult{Drain: false}, time.Time{}, asked) {
		t.Error("an answer that says nothing counts as news")
	}
}
