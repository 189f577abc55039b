package worker

import (
	"strconv"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

func TestOfRefusedTasksTheOldestIsForgotten(t *testing.T) {
	t.Parallel()
	w, began := &Worker{}, time.Unix(1_800_000_000, 0)
	refuse := func(task int) (again bool) {
		j := &job{keeper: &leaseKeeper{task: bloom.Task{ID: strconv.Itoa(task)}}}
		w.suspect(j, began.Add(time.Duration(task)*time.Second))
		return j.refusals > 1
	}
	for n := range maxSuspects + 1 {
		refuse(n)
	}
	if len(w.suspects) > maxSuspects || !refuse(1) || refuse(0) {
		t.Errorf("it remembers %d refused tasks, not the last ones", len(w.suspects))
	}
}

// Two tasks that are always refused would otherwise take every try in turn.
func TestATaskThatIsAlwaysRefusedLeavesMoreAndMoreTriesToOthers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	w, j := &Worker{refusals: 3, pausing: &bloom.Pause{Until: now.UnixMilli()}}, &job{keeper: &leaseKeeper{task: bloom.Task{ID: "bad"}}}
	if at := w.afterPause(j); at != 0 {
		t.Errorf("a task that was not refused waits until %d", at)
	}
	for refusal, want := range []time.Duration{0, refusedDelay, refusedDelay + 2*time.Minute, refusedDelay + 4*time.Minute} {
		w.suspect(j, now)
		if at := w.afterPause(j); refusal > 0 && at != now.Add(want).UnixMilli() || refusal == 0 && at != 0 {
			t.Errorf("refusal %d: it waits until %d, the pause ends at %d", refusal+1, at, now.UnixMilli())
		}
	}
}
