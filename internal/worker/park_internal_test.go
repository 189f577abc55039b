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
		return j.refusedAgain
	}
	for n := range maxSuspects + 1 {
		refuse(n)
	}
	if len(w.suspects) > maxSuspects || !refuse(1) || refuse(0) {
		t.Errorf("it remembers %d refused tasks, not the last ones", len(w.suspects))
	}
}
