package auth

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bloom-runtime/bloom"
)

// Limiter bounds how often each address may do something. Its memory is
// bounded: when it knows too many addresses it forgets those that have been
// quiet longest, and while all are busy, newcomers share one allowance. It is
// safe for concurrent use.
type Limiter struct {
	clock bloom.Clock
	every time.Duration
	burst int
	most  int

	mu     sync.Mutex
	byAddr map[string]*allowance
	shared *rate.Limiter
}

type allowance struct {
	limiter *rate.Limiter
	seen    time.Time
}

// maxAddresses bounds the addresses a Limiter remembers.
const maxAddresses = 4096

// NewLimiter allows n events a minute for each address, all of them at once if
// need be.
func NewLimiter(clock bloom.Clock, n int) *Limiter {
	every := time.Minute / time.Duration(n)
	return &Limiter{
		clock: clock, every: every, burst: n, most: maxAddresses,
		byAddr: make(map[string]*allowance), shared: rate.NewLimiter(rate.Every(every), n),
	}
}

// Allow reports whether addr may go on, and if not, when to try again.
func (l *Limiter) Allow(addr string) (ok bool, retryAfter time.Duration) {
	now := l.clock.Now()
	lim := l.limiter(addr, now)
	r := lim.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return true, 0
	}
	r.CancelAt(now)
	return false, wait
}

func (l *Limiter) limiter(addr string, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.byAddr[addr]; a != nil {
		a.seen = now
		return a.limiter
	}
	if len(l.byAddr) >= l.most {
		l.forget(now)
	}
	if len(l.byAddr) >= l.most {
		return l.shared
	}
	a := &allowance{limiter: rate.NewLimiter(rate.Every(l.every), l.burst), seen: now}
	l.byAddr[addr] = a
	return a.limiter
}

// forget drops the addresses whose allowance is full again anyway.
func (l *Limiter) forget(now time.Time) {
	full := l.every * time.Duration(l.burst)
	for addr, a := range l.byAddr {
		if now.Sub(a.seen) >= full {
			delete(l.byAddr, addr)
		}
	}
}
