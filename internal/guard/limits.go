package guard

import (
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom/internal/timing"
)

// Limit is one rate limit, under its name in RateLimit-Policy and in metrics. Without a Limiter it
// is unlimited.
type Limit struct {
	*Limiter
	name, whose string
	per         string   // the window, in words
	policy      []string // the header
}

// Limits are the rate limits of a server. They are safe for concurrent use.
type Limits struct {
	clock   timing.Clock
	log     *slog.Logger
	refused func(limit string) // for metrics; nil for none

	mu     sync.Mutex
	count  int       // refused since logged
	logged time.Time // when that was last logged
}

// NewLimits returns an empty set of limits. refused, if not nil, is called with the limit's name
// for every request that one refuses.
func NewLimits(clock timing.Clock, log *slog.Logger, refused func(limit string)) *Limits {
	return &Limits{clock: clock, log: log, refused: refused}
}

// New adds a limit of n requests per LimitWindow for each caller; 0 means unlimited. whose appears
// in the message of a refusal.
func (ls *Limits) New(name, whose string, n int) *Limit {
	return ls.Over(LimitWindow, "a minute", name, whose, n)
}

// Over is New with a window of its own: a long one allows a burst and, in the long run, little. per
// is the window in words.
func (ls *Limits) Over(window time.Duration, per, name, whose string, n int) *Limit {
	return &Limit{newLimiter(ls.clock, n, window), name, whose, per, []string{`"` + name + `";q=` + strconv.Itoa(n) + ";w=" + Seconds(window)}}
}

// Refusal is the response to a request over a limit: 429, with Retry-After.
type Refusal struct {
	Message    string
	RetryAfter time.Duration
}

// Take counts a request of a caller, sets the rate limit headers in h, and returns a refusal when
// the limit is reached; nil lets it pass.
func (ls *Limits) Take(h http.Header, l *Limit, caller string) *Refusal {
	if l.Limiter == nil {
		return nil
	}
	a := l.Allow(caller)
	h["Ratelimit-Policy"] = l.policy
	h["Ratelimit"] = []string{`"` + l.name + `";r=` + strconv.Itoa(a.Remaining) + ";t=" + Seconds(a.Reset)}
	if a.Wait == 0 {
		return nil
	}
	ls.note(l, caller)
	return &Refusal{RetryAfter: a.Wait,
		Message: "Too many requests: the limit for " + l.whose + " is " + strconv.Itoa(a.Limit) + " " + l.per + "; try again later"}
}

// Refused counts a request that something other than a Limit refused.
func (ls *Limits) Refused(name string) {
	if ls.refused != nil {
		ls.refused(name)
	}
}

// refusalsEvery is how often refused requests are logged: a line for each would let a flood fill
// the disk.
const refusalsEvery = 10 * time.Second

func (ls *Limits) note(l *Limit, caller string) {
	ls.Refused(l.name)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.count++
	now := ls.clock.Now()
	if now.Sub(ls.logged) < refusalsEvery {
		return
	}
	ls.log.Warn("requests refused by a rate limit", "requests", ls.count, "limit", l.name, "caller", caller)
	ls.count, ls.logged = 0, now
}

// Seconds formats a duration for a header: whole seconds, rounded up.
func Seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
