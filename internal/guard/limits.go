package guard

import (
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Limit is one limit on requests, under the name it has in RateLimit-Policy and in
// metrics. One without a Limiter limits nothing.
type Limit struct {
	*Limiter
	name, whose string
	policy      []string // the header
}

// Limits are those of a server. They are safe for concurrent use.
type Limits struct {
	clock   bloom.Clock
	log     *slog.Logger
	refused func(limit string) // for metrics; nil for none

	mu     sync.Mutex
	count  int       // refused since logged
	logged time.Time // when that was last logged
}

// NewLimits makes a server's limits, none of them yet. refused hears of every request
// that one refuses, by the limit's name; it may be nil.
func NewLimits(clock bloom.Clock, log *slog.Logger, refused func(limit string)) *Limits {
	return &Limits{clock: clock, log: log, refused: refused}
}

// New makes a limit of n requests a LimitWindow for each caller; 0 is no limit. The
// sentence of a refusal says whose limit it is.
func (ls *Limits) New(name, whose string, n int) *Limit {
	window := strconv.Itoa(int(LimitWindow.Seconds()))
	return &Limit{NewLimiter(ls.clock, n), name, whose, []string{`"` + name + `";q=` + strconv.Itoa(n) + ";w=" + window}}
}

// Refusal is the answer to a request beyond a limit: 429, with Retry-After.
type Refusal struct {
	Message    string
	RetryAfter time.Duration
}

// Take counts a request of a caller, says in the header h what is left, and
// refuses the request when the limit is reached; nil lets it pass.
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
		Message: "Too many requests: the limit for " + l.whose + " is " + strconv.Itoa(a.Limit) + " a minute; try again later"}
}

// Refused counts a request that something else than a Limit refused.
func (ls *Limits) Refused(name string) {
	if ls.refused != nil {
		ls.refused(name)
	}
}

// refusalsEvery is how often the log reports refused requests: a line for each would
// let a flood fill the disk.
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

// Seconds is a time as headers tell it: in whole seconds, rounded up.
func Seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
