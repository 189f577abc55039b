package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// TestNoLeaseExpiresBecauseOfAnOutage has the database fail between two runs of the
// reaper. Only if that lasted, leases that nobody could renew are extended.
func TestNoLeaseExpiresBecauseOfAnOutage(t *testing.T) {
	t.Parallel()
	failures := map[string]error{
		"unreachable": store.ErrUnreachable,
		"refuses":     &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable, Message: "The disk is full"},
	}
	for name, failure := range failures {
		for _, c := range []struct {
			lasts, idle time.Duration
			want        bloom.Reaped
		}{{10 * time.Minute, 0, bloom.Reaped{}}, {time.Millisecond, 0, bloom.Reaped{Requeued: 1}}, {time.Millisecond, 10 * time.Minute, bloom.Reaped{Requeued: 1}}} {
			t.Run(fmt.Sprintf("%s for %s, then idle for %s", name, c.lasts, c.idle), func(t *testing.T) {
				t.Parallel()
				lasts, want := c.lasts, c.want
				onBothAt(t, storetest.NewClock, func(t *testing.T, s *store.Store, clock *storetest.Clock) {
					store.OutagesBy(s, clock.Now)
					register(t, s)
					taskID, leaseID := leased(t, s, "context")
					if want.Total() > 0 {
						clock.Advance(time.Hour) // it is overdue, whatever the database does
					}
					down := true
					store.Disturb(s, func(c *store.Changes) error {
						if len(c.NewTasks) > 0 && down {
							down = false
							clock.Advance(lasts)
							return failure
						}
						return nil
					})
					for down {
						_, _, _ = s.CreateTask(t.Context(), storetest.Plain("other"))
					}
					clock.Advance(c.idle)
					if _, _, err := s.CreateTask(t.Context(), storetest.Plain("other")); err != nil {
						t.Fatal(err)
					}
					if got, err := s.Reap(t.Context(), 100); err != nil || got != want {
						t.Fatalf("reaped %+v, %v; want %+v", got, err, want)
					}
					if want.Total() > 0 {
						return
					}
					if _, err := s.Heartbeat(t.Context(), taskID, leaseID); err != nil {
						t.Error(err)
					}
					clock.Advance(time.Hour)
					if got, err := s.Reap(t.Context(), 100); err != nil || got != (bloom.Reaped{Requeued: 1}) {
						t.Errorf("later reaped %+v, %v", got, err)
					}
				})
			})
		}
	}
}

// TestNoLeaseExpiresBeforeAllAreExtended has the database fail again while leases are
// extended after an outage.
func TestNoLeaseExpiresBeforeAllAreExtended(t *testing.T) {
	t.Parallel()
	onBothAt(t, storetest.NewClock, func(t *testing.T, s *store.Store, clock *storetest.Clock) {
		store.OutagesBy(s, clock.Now)
		register(t, s)
		taskID, leaseID := leased(t, s, "context")
		full := &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable, Message: "The disk is full"}
		lasts := []time.Duration{10 * time.Minute, 0}
		store.Disturb(s, func(c *store.Changes) error {
			if len(lasts) == 0 || len(c.NewTasks)+len(c.Leases) == 0 {
				return nil
			}
			clock.Advance(lasts[0])
			lasts = lasts[1:]
			return full
		})
		if _, _, err := s.CreateTask(t.Context(), storetest.Plain("other")); err == nil {
			t.Fatal("the task was created")
		}
		if got, err := s.Reap(t.Context(), 100); err == nil || got.Total() > 0 {
			t.Errorf("reaped %+v, %v", got, err)
		}
		if got, err := s.Reap(t.Context(), 100); err != nil || got.Total() > 0 {
			t.Errorf("then reaped %+v, %v", got, err)
		}
		if _, err := s.Heartbeat(t.Context(), taskID, leaseID); err != nil {
			t.Error(err)
		}
	})
}
