package httpapi

import (
	"net/http"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/guard"
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

// limits are those of a Server.
type limits struct {
	*guard.Limits
	address, signIn, test, key, worker *guard.Limit
}

func newLimits(c Config) *limits {
	all := guard.NewLimits(c.Clock, c.Logger, c.Refused)
	return &limits{
		Limits:  all,
		address: all.New("address", "callers without a valid key at this address", c.Limits.Address),
		signIn:  all.New("sign-in", "attempts to sign in from this address", c.Limits.SignIn),
		test:    all.New("test-connection", "connection tests from this address", c.Limits.SignIn),
		key:     all.New("key", "this key", c.Limits.Key),
		worker:  all.New("worker", "this key's calls for workers", c.Limits.Worker),
	}
}

// take counts a request of a caller and is a Failure when the limit is reached.
func (ls *limits) take(w http.ResponseWriter, l *guard.Limit, caller string) error {
	if r := ls.Take(w.Header(), l, caller); r != nil {
		return &Failure{Message: r.Message, Code: bloom.CodeRateLimited, status: http.StatusTooManyRequests, retryAfter: r.RetryAfter}
	}
	return nil
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
func (s *Server) network(r *http.Request) string { return guard.Network(s.proxies.Client(r)) }

// isProbe reports whether load balancers ask there: to refuse one of them would take
// a healthy server out of service.
func isProbe(path string) bool { return path == "/readyz" || path == "/health" || path == "/healthz" }

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
