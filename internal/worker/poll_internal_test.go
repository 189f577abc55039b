package worker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

// TestALeaseCompletedDuringThePollDoesNotDelayTheNext: the server reports a lease as lost
// that was completed during the poll. Only an answer that changes nothing is followed by
// a pause; this one removes a held lease.
func TestALeaseCompletedDuringThePollDoesNotDelayTheNext(t *testing.T) {
	t.Parallel()
	w := &Worker{log: slog.New(slog.DiscardHandler), jobs: map[string]*job{}, stopSent: map[string]bool{}}
	w.outbox = newOutbox(t.TempDir(), Config{}, w.log, nil, nil)
	asked := map[string]*job{"done": {}, "waits": nil}
	if !w.apply(bloom.ClaimResult{Lost: []string{"done"}}, time.Time{}, asked) {
		t.Error("a completed lease's being called lost is followed by a wait")
	}
	l := completion(bloom.Lease{ID: "waits"}, failure(bloom.ClassCrashed, "x", true), time.Time{})
	w.outbox.pending["waits"] = l
	if !w.apply(bloom.ClaimResult{Lost: []string{"waits"}}, time.Time{}, asked) || len(w.outbox.held()) != 0 {
		t.Error("an undelivered outcome's lease is still held after its loss")
	}
	if w.apply(bloom.ClaimResult{Drain: false}, time.Time{}, asked) {
		t.Error("an answer that says nothing counts as news")
	}
}
