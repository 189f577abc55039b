package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
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
			want        contract.Reaped
		}{{10 * time.Minute, 0, contract.Reaped{}}, {time.Millisecond, 0, contract.Reaped{Requeued: 1}}, {time.Millisecond, 10 * time.Minute, contract.Reaped{Requeued: 1}}} {
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
						if c.Created() > 0 && down {
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
					if _, err := s.Heartbeat(t.Context(), taskID, leaseID, nil); err != nil {
						t.Error(err)
					}
					clock.Advance(time.Hour)
					if got, err := s.Reap(t.Context(), 100); err != nil || got != (contract.Reaped{Requeued: 1}) {
						t.Errorf("later reaped %+v, %v", got, err)
					}
				})
			})
		}
	}
}

// TestNoLeaseExpiresBeforeAllAreExtended has the database fail again while leases are
// extended after an outage: for all leases, for one because it does not answer, and for one
// for another reason, which must not keep the others from being reaped.
func TestNoLeaseExpiresBeforeAllAreExtended(t *testing.T) {
	t.Parallel()
	damaged := &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable, Message: "The file is damaged"}
	for name, c := range map[string]struct {
		failure error
		healthy int // leases that can be extended
		fails   bool
	}{"all": {damaged, 0, true}, "unanswered": {context.DeadlineExceeded, 1, true}, "one": {damaged, 1, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothAt(t, storetest.NewClock, func(t *testing.T, s *store.Store, clock *storetest.Clock) {
				store.OutagesBy(s, clock.Now)
				register(t, s)
				taskID, leaseID := leased(t, s, "context")
				for range c.healthy {
					leased(t, s, "healthy")
				}
				outage := true
				store.Disturb(s, func(changes *store.Changes) error {
					bad := slices.ContainsFunc(changes.Leases(false), func(l *bloom.Lease) bool { return l.ID == leaseID })
					switch {
					case outage && changes.Created() > 0:
						clock.Advance(10 * time.Minute)
						return c.failure
					case outage && bad:
						return c.failure
					}
					return nil
				})
				if _, _, err := s.CreateTask(t.Context(), storetest.Plain("other")); err == nil {
					t.Fatal("the task was created")
				}
				if got, err := s.Reap(t.Context(), 100); (err != nil) != c.fails || got.Total() > 0 {
					t.Errorf("reaped %+v, %v", got, err)
				}
				outage = false
				if got, err := s.Reap(t.Context(), 100); err != nil || c.fails && got.Total() > 0 {
					t.Errorf("then reaped %+v, %v", got, err)
				}
				if _, err := s.Heartbeat(t.Context(), taskID, leaseID, nil); c.fails && err != nil {
					t.Error(err)
				}
			})
		})
	}
}
