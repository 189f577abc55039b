package upkeep_test

import (
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/upkeep"
)

// jumpy is the machine's clock, whose wall can be made to jump against its
// monotonic part. No function of package time makes such a reading, so its first
// word is changed: the seconds of the wall lie above 30 bits of nanoseconds.
type jumpy struct {
	mu      sync.Mutex
	seconds int64
}

func (j *jumpy) Now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	word := (*uint64)(unsafe.Pointer(&now))
	*word = uint64(int64(*word) + j.seconds<<30)
	return now
}

func (j *jumpy) jump(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seconds += int64(d / time.Second)
}

func TestAJumpOfTheWallClockMovesTheLeasesAlong(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"forward": 10 * time.Hour, "back": -10 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &jumpy{}
			s := open(t, c)
			l := leased(t, s)
			reaper := upkeep.NewReaper(upkeep.ReaperConfig{Store: s, Clock: c})
			runOnce(t, reaper)
			c.jump(by)
			if res := runOnce(t, reaper); !strings.Contains(res.Detail, "jumped") {
				t.Fatalf("a jump of %s went unnoticed: %+v", by, res)
			}
			if got := status(t, s, l.TaskID); got != bloom.TaskLeased {
				t.Fatalf("after a jump the task is %s", got)
			}
			_, leases, err := s.Worker(t.Context(), "w")
			if err != nil || len(leases) != 1 {
				t.Fatalf("leases %v (%v)", leases, err)
			}
			if left := time.UnixMilli(leases[0].ExpiresAt).Sub(c.Now().Round(0)); left < 50*time.Second || left > 70*time.Second {
				t.Fatalf("after a jump of %s the lease has %s left of a minute", by, left)
			}
			if res := runOnce(t, reaper); res.Changed != 0 {
				t.Fatalf("the jump was followed twice: %+v", res)
			}
		})
	}
}
