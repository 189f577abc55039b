package dispatch

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of the audit entries of requests under lost leases, a minute: anybody with a worker's
// key can make up leases.
const (
	staleAudited    = 60                // of one worker with one key
	staleAuditedAll = 10 * staleAudited // of all together
	maxStaleCallers = 4096              // of which a limiter is kept
)

// staleEntries limits these entries, so that one caller does not hide those of the others. It is
// safe for concurrent use.
type staleEntries struct {
	mu  sync.Mutex
	of  map[[2]string]*rate.Limiter
	all *rate.Limiter
}

func newStaleEntries() *staleEntries {
	return &staleEntries{of: map[[2]string]*rate.Limiter{}, all: rate.NewLimiter(rate.Every(time.Minute/staleAuditedAll), staleAuditedAll)}
}

// allow counts an entry for the key and for the worker that had the lease; "" if nobody had it.
func (s *staleEntries) allow(keyID, worker string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	who := [2]string{keyID, worker}
	one, known := s.of[who]
	if !known {
		if len(s.of) >= maxStaleCallers {
			clear(s.of) // every caller starts again; the total is still limited
		}
		one = rate.NewLimiter(rate.Every(time.Minute/staleAudited), staleAudited)
		s.of[who] = one
	}
	return one.AllowN(now, 1) && s.all.AllowN(now, 1)
}
