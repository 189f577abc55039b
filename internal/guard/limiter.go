package guard

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bloom-runtime/bloom/internal/timing"
)

// Limiter limits the rate of events per caller. Its memory is bounded: it drops callers whose
// allowance is full again, and while it has too many others, new callers share one allowance, so
// that many forged addresses do not raise the limit. It is safe for concurrent use; a nil Limiter
// allows everything.
type Limiter struct {
	clock  timing.Clock
	window time.Duration
	every  time.Duration
	burst  int
	most   int

	mu     sync.Mutex
	known  map[string]*list.Element
	recent *list.List // of *allowance, most recently seen first
	shared *rate.Limiter
}

type allowance struct {
	caller  string
	limiter *rate.Limiter
	seen    time.Time
}

// maxCallers bounds the callers that a Limiter tracks.
const maxCallers = 8192

// LimitWindow is the period of a Limiter's limit unless it has one of its own.
const LimitWindow = time.Minute

// NewLimiter allows each caller n events per LimitWindow, all at once if necessary. It returns nil
// when n is 0 or less.
func NewLimiter(clock timing.Clock, n int) *Limiter { return newLimiter(clock, n, LimitWindow) }

func newLimiter(clock timing.Clock, n int, window time.Duration) *Limiter {
	if n <= 0 {
		return nil
	}
	every := window / time.Duration(n)
	return &Limiter{
		clock: clock, window: window, every: every, burst: n, most: maxCallers,
		known: map[string]*list.Element{}, recent: list.New(), shared: rate.NewLimiter(rate.Every(every), n),
	}
}

// Allowance is the remaining allowance of a caller.
type Allowance struct {
	Limit     int           // events per window
	Remaining int           // events allowed now
	Reset     time.Duration // until Remaining is Limit again
	Wait      time.Duration // until the next event is allowed; 0 if this one was
}

// Allow counts an event of a caller and returns the remaining allowance. An event that must wait is
// not counted.
func (l *Limiter) Allow(caller string) Allowance {
	if l == nil {
		return Allowance{}
	}
	now := l.clock.Now()
	lim := l.limiter(caller, now)
	r := lim.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	left := max(0, lim.TokensAt(now))
	return Allowance{Limit: l.burst, Remaining: int(left), Wait: wait, Reset: time.Duration((float64(l.burst) - left) * float64(l.every))}
}

// Exhausted reports whether an event of a caller would have to wait. It counts nothing.
func (l *Limiter) Exhausted(caller string) bool {
	if l == nil {
		return false
	}
	now := l.clock.Now()
	return l.limiter(caller, now).TokensAt(now) < 1
}

func (l *Limiter) limiter(caller string, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.known[caller]; e != nil {
		a := e.Value.(*allowance)
		a.seen = now
		l.recent.MoveToFront(e)
		return a.limiter
	}
	if len(l.known) >= l.most {
		last := l.recent.Back()
		quiet := last.Value.(*allowance)
		if now.Sub(quiet.seen) < l.window {
			return l.shared
		}
		l.recent.Remove(last)
		delete(l.known, quiet.caller)
	}
	a := &allowance{caller: caller, limiter: rate.NewLimiter(rate.Every(l.every), l.burst), seen: now}
	l.known[caller] = l.recent.PushFront(a)
	return a.limiter
}

// Network returns the part of an address that identifies a caller: an IPv6 host typically has a
// whole /64.
func Network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return network.Addr().String()
}
