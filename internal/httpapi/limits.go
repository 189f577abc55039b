package httpapi

import (
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
)

// Limits are how many requests a minute are answered; 0 answers any number. Each
// server counts for itself: n replicas let through n times as much. Development mode,
// where every caller is on this machine, has only SignIn.
type Limits struct {
	Address int // of callers without a valid key, by address (IPv6: by /64 network)
	SignIn  int // attempts to sign in, and as many connection tests, by address
	Key     int // by key
	Worker  int // by key, of the calls that workers make; they do not count for Key
}

// DefaultLimits are those of a server that nobody told otherwise.
var DefaultLimits = Limits{Address: 100, SignIn: 20, Key: 6000, Worker: 600_000}

// limit is one of the limits, under the name it has in RateLimit-Policy and in metrics.
type limit struct {
	*auth.Limiter
	name, whose string
	policy      []string // the header
}

func newLimit(clock bloom.Clock, name, whose string, n int) *limit {
	window := strconv.Itoa(int(auth.LimitWindow.Seconds()))
	return &limit{auth.NewLimiter(clock, n), name, whose, []string{`"` + name + `";q=` + strconv.Itoa(n) + ";w=" + window}}
}

// limits are those of a Server. They are safe for concurrent use.
type limits struct {
	address, signIn, test, key, worker *limit

	log     *slog.Logger
	refused func(limit string) // for metrics; nil tells nobody
	mu      sync.Mutex
	clock   bloom.Clock
	count   int       // refused since logged
	logged  time.Time // when that was last told
}

func newLimits(c Config) *limits {
	return &limits{
		address: newLimit(c.Clock, "address", "callers without a valid key at this address", c.Limits.Address),
		signIn:  newLimit(c.Clock, "sign-in", "attempts to sign in from this address", c.Limits.SignIn),
		test:    newLimit(c.Clock, "test-connection", "connection tests from this address", c.Limits.SignIn),
		key:     newLimit(c.Clock, "key", "this key", c.Limits.Key),
		worker:  newLimit(c.Clock, "worker", "this key's calls for workers", c.Limits.Worker),
		log:     c.Logger, refused: c.Refused, clock: c.Clock,
	}
}

// take counts a request of a caller, tells the caller what is left, and is a Failure
// when the limit is reached.
func (ls *limits) take(w http.ResponseWriter, l *limit, caller string) error {
	if l.Limiter == nil {
		return nil
	}
	a := l.Allow(caller)
	h := w.Header()
	h["Ratelimit-Policy"] = l.policy
	h["Ratelimit"] = []string{`"` + l.name + `";r=` + strconv.Itoa(a.Remaining) + ";t=" + itoa(seconds(a.Reset))}
	if a.Wait == 0 {
		return nil
	}
	ls.note(l, caller)
	return &Failure{Message: "Too many requests: the limit for " + l.whose + " is " + strconv.Itoa(a.Limit) + " a minute; try again later",
		Code: bloom.CodeRateLimited, status: http.StatusTooManyRequests, retryAfter: a.Wait}
}

// refusalsEvery is how often the log reports refused requests: a line for each would
// let a flood fill the disk.
const refusalsEvery = 10 * time.Second

func (ls *limits) note(l *limit, caller string) {
	if ls.refused != nil {
		ls.refused(l.name)
	}
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

// limited counts a request for who sent it, by the class of the route.
func (s *Server) limited(w http.ResponseWriter, r *http.Request, caller auth.Principal, policy auth.Policy) error {
	if s.auth.Mode() == auth.ModeDevelopment || isProbe(r.URL.Path) {
		return nil
	}
	who := caller.Scope()
	if !caller.Known() || s.auth.Mode() == auth.ModeInsecure { // there, everybody has one name
		who = s.network(r)
	}
	switch {
	case !caller.Known():
		return s.limits.take(w, s.limits.address, who)
	case policy == auth.Worker || caller.Role == auth.RoleWorker:
		return s.limits.take(w, s.limits.worker, who)
	}
	return s.limits.take(w, s.limits.key, who)
}

// network is the caller's address, as far as limits tell addresses apart.
func (s *Server) network(r *http.Request) string { return auth.Network(s.proxies.Client(r)) }

// isProbe reports whether load balancers ask there: to refuse one of them would take
// a healthy server out of service.
func isProbe(path string) bool { return path == "/readyz" || path == "/health" || path == "/healthz" }

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// probe asks after the store for many at once: whoever asks within probeFor of the
// last answer gets that one. It is safe for concurrent use.
type probe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

const probeFor = 100 * time.Millisecond

func (p *probe) ask(clock bloom.Clock, ready func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || clock.Now().Sub(p.at) >= probeFor {
		p.err = ready()
		p.at = clock.Now()
	}
	return p.err
}
