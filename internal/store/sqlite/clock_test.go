package sqlite_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// jumpy is the machine's clock, whose wall time can jump against its monotonic part. No function of
// package time makes such a reading, so this changes its first word: the seconds of the wall time
// are above 30 bits of nanoseconds.
type jumpy struct {
	mu      sync.Mutex
	seconds int64
	passed  time.Duration
}

func (j *jumpy) Now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now().Add(j.passed)
	word := (*uint64)(unsafe.Pointer(&now))
	*word = uint64(int64(*word) + j.seconds<<30)
	return now
}

// jump moves only the wall time, pass lets time pass.
func (j *jumpy) jump(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seconds += int64(d / time.Second)
}

func (j *jumpy) pass(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.passed += d
}

// Each jump is tried at every point of a scenario.
var jumps = []time.Duration{10 * time.Minute, -10 * time.Minute, 24 * time.Hour, -24 * time.Hour}

// jumped opens a store on a clock that jumps, with two tasks that a worker has leased for a minute
// each.
func jumped(t *testing.T) (*sqlite.Store, *jumpy, []string) {
	t.Helper()
	c := &jumpy{}
	s := open(t, c)
	_, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{
		Name: "w", InstanceID: "w-1", Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 4},
	}, "w")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := s.CreateTask(t.Context(), storetest.Plain("c")); err != nil {
			t.Fatal(err)
		}
	}
	return s, c, renew(t, s, nil)
}

// renew claims and renews like a worker.
func renew(t *testing.T, s contract.Store, held []string) []string {
	t.Helper()
	got, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 2, TTLSec: 60, Held: held, Renew: true})
	if err != nil || len(got.Lost) > 0 {
		t.Fatalf("lost %v, %v", got.Lost, err)
	}
	for _, l := range got.Leases {
		held = append(held, l.Lease.ID)
	}
	return held
}

// TestJumpsOfTheClockMoveNoDeadline makes the clock jump before, between and after the renewals of
// two leases, and checks how long they last in real time.
func TestJumpsOfTheClockMoveNoDeadline(t *testing.T) {
	t.Parallel()
	for _, by := range jumps {
		for place, name := range []string{"before all", "between them", "after all", "before each"} {
			t.Run(fmt.Sprint(by, " ", name), func(t *testing.T) {
				t.Parallel()
				s, c, held := jumped(t)
				at := func(here int) {
					if place == here || place == 3 && here < 2 {
						c.jump(by)
					}
				}
				c.pass(30 * time.Second)
				at(0)
				held = renew(t, s, held[:1]) // and the other lease is sent again
				if len(held) != 2 {
					t.Fatalf("holds %v", held)
				}
				at(1)
				renew(t, s, held)
				at(2)
				c.pass(55 * time.Second)
				if did, err := s.Reap(t.Context(), 10); err != nil || did.Total() != 0 {
					t.Fatalf("after 55 s of 60: reaped %+v, %v", did, err)
				}
				c.pass(10 * time.Second)
				if did, err := s.Reap(t.Context(), 10); err != nil || did.Total() != 2 {
					t.Fatalf("after 65 s of 60: reaped %+v, %v", did, err)
				}
			})
		}
	}
}

// TestAClockJumpDelaysNobody checks other waits across jumps.
func TestAClockJumpDelaysNobody(t *testing.T) {
	t.Parallel()
	for _, by := range jumps {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			s, c, held := jumped(t)
			_, leases, err := s.Worker(t.Context(), "w")
			if err != nil {
				t.Fatal(err)
			}
			why := "again"
			failed := storetest.Success(leases[0].TaskID, leases[0].ID)
			failed.Completion = bloom.Completion{LeaseID: leases[0].ID, Status: bloom.OutcomeError, ErrorMessage: &why, Retryable: true}
			if _, err := s.Complete(t.Context(), failed); err != nil {
				t.Fatal(err)
			}
			c.jump(by)
			renewed := renew(t, s, slices.DeleteFunc(held, func(id string) bool { return id == leases[0].ID }))
			if n, err := s.MarkSilent(t.Context(), bloom.OfflineAfter); err != nil || n != 0 {
				t.Errorf("%d workers are silent, %v", n, err)
			}
			c.pass(lifecycle.RetryDelay(1) + contract.StickyGrace + time.Second)
			if got := renew(t, s, renewed); len(got) != 2 {
				t.Errorf("the task that is tried again was not claimed: %v", got)
			}
			c.pass(bloom.OfflineAfter + time.Second)
			if n, err := s.MarkSilent(t.Context(), bloom.OfflineAfter); err != nil || n != 1 {
				t.Errorf("%d workers are silent, %v", n, err)
			}
		})
	}
}
