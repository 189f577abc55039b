package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// outageLeast is the shortest outage after which leases are extended. Shorter ones, such
// as a lost connection, delay renewals no more than a slow network does, and must not
// keep a dead worker's leases alive.
const outageLeast = time.Second

// outage tells whether the database failed for so long that workers could not renew
// their leases.
type outage struct {
	now func() time.Time

	mu       sync.Mutex
	answered time.Time // when a transaction last succeeded
	since    time.Time // when the first failing transaction since the last success began; zero: none
	last     time.Time // when the last failing transaction ended
	refused  bool      // the database answered, but refused to write
	over     bool      // an outage has ended, and the leases were not extended since
}

func (o *outage) failed(began time.Time, refused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = began
		if began.Before(o.answered) { // others were served meanwhile
			o.since = o.answered
		}
	}
	o.last, o.refused = o.now(), refused
}

// succeeded notes a transaction that succeeded. One that wrote nothing does not show
// that a database which refused to write does so again.
func (o *outage) succeeded(wrote bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refused && !wrote {
		return
	}
	o.over = o.over || o.long()
	o.since, o.answered = time.Time{}, o.now()
}

// long reports whether transactions failed for long. A single failure long before the next
// success is no outage.
func (o *outage) long() bool { return !o.since.IsZero() && o.last.Sub(o.since) >= outageLeast }

// needsExtension reports whether leases must be extended before any is reaped.
func (o *outage) needsExtension() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over || o.long()
}

func (o *outage) extended() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = false
}

// noteAttempt notes whether the database answers, and why it refuses to write.
func (s *Store) noteAttempt(began time.Time, u *Unit, err error) {
	switch {
	case err == nil:
		wrote := !u.c.Empty()
		if s.outage.succeeded(wrote); wrote {
			s.refused.Store(nil)
		}
	case unreachable(err):
		s.outage.failed(began, false)
	case errors.Is(err, ErrConflict), errors.Is(err, context.Canceled):
	default:
		if reason := s.db.Explain(err); bloom.KindOf(reason) == bloom.KindUnavailable {
			s.outage.failed(began, true)
			s.refused.Store(&reason.Message)
		}
	}
}
