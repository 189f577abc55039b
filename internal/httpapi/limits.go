package httpapi

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Limits are requests per minute; 0: no limit. Each server counts on its own, so n
// replicas allow n times as many. In development mode, where every caller is on this
// machine, only SignIn applies.
type Limits struct {
	Address int // of callers without a valid key, by address (IPv6: by /64 network)
	SignIn  int // attempts to sign in, and as many connection tests, by address
	Key     int // by key
	Worker  int // by key, of the calls that workers make; they do not count for Key
	// Registrations are those of workers, by key, in RegistrationsWindow. Each is an entry
	// of the audit log that nothing else bounds.
	Registrations int
	Streams       int // open at one time, by key
	// Files are those of the web application and of the installer, by address, for callers without
	// a valid key.
	Files int
}

// RegistrationsWindow is the period of Limits.Registrations. It is long, so that a fleet may
// register at once.
const RegistrationsWindow = 2000 * time.Second

// DefaultLimits are the limits if none are configured.
var DefaultLimits = Limits{Address: 100, SignIn: 20, Key: 6000, Worker: 600_000, Registrations: defaultRegistrations, Streams: 1000, Files: 3000}

// defaultRegistrations lets twice as many workers register at once as a worker's key may
// register, and allows ten registrations a second permanently.
const defaultRegistrations = 2 * bloom.MaxWorkers

// limits are those of a Server.
type limits struct {
	*guard.Limits
	address, signIn, sessions, test, key, worker, registrations, files *guard.Limit

	streams streams
	claims  streams // by worker, but for those that wait
}

func newLimits(c Config) *limits {
	all := guard.NewLimits(c.Clock, c.Logger, c.Refused)
	return &limits{
		Limits:        all,
		address:       all.New("address", "callers without a valid key at this address", c.Limits.Address),
		signIn:        all.New("sign-in", "attempts to sign in from this address", c.Limits.SignIn),
		sessions:      all.New("sessions", "sign-ins with this key", 3*c.Limits.SignIn),
		test:          all.New("test-connection", "connection tests from this address", c.Limits.SignIn),
		key:           all.New("key", "this key", c.Limits.Key),
		worker:        all.New("worker", "this key's calls for workers", c.Limits.Worker),
		registrations: all.Over(RegistrationsWindow, "in 33 minutes", "registrations", "registrations with this key", c.Limits.Registrations),
		files:         all.New("files", "files requested without a valid key from this address", c.Limits.Files),
		streams:       streams{most: c.Limits.Streams},
		claims:        streams{most: dispatch.MaxPolls},
	}
}

// take counts a request of a caller and returns a Failure if the limit is reached.
func (ls *limits) take(w http.ResponseWriter, l *guard.Limit, caller string) error {
	if r := ls.Take(w.Header(), l, caller); r != nil {
		return &Failure{Message: r.Message, Code: bloom.CodeRateLimited, status: http.StatusTooManyRequests, retryAfter: r.RetryAfter}
	}
	return nil
}

// limited counts a request for its sender, by the class of the route.
func (s *Server) limited(w http.ResponseWriter, r *http.Request, caller auth.Principal, policy auth.Policy) error {
	if s.auth.Mode() == auth.ModeDevelopment || isProbe(r.URL.Path) && !auth.Presented(r) {
		return nil
	}
	who := s.counted(r, caller)
	switch {
	case !caller.Known() && r.Method == http.MethodPost && r.URL.Path == sessionPath: // its own limit spares valid keys
		return nil
	case !caller.Known():
		return s.limits.take(w, s.limits.address, who)
	case policy == auth.Worker || caller.Role == auth.RoleWorker:
		return s.limits.take(w, s.limits.worker, who)
	}
	return s.limits.take(w, s.limits.key, who)
}

// counted returns whose limit a request counts against: the key's, or the network's if all
// callers have the same name.
func (s *Server) counted(r *http.Request, caller auth.Principal) string {
	if !caller.Known() || s.auth.Mode() == auth.ModeInsecure {
		return s.network(r)
	}
	return caller.Scope()
}

// registrationOf applies the limit of a worker's registrations.
func (s *Server) registrationOf(c *call) error {
	if !isWorker(c) {
		return nil
	}
	return s.limits.take(c.w, s.limits.registrations, s.counted(c.r, c.caller))
}

// streams counts the open streams of each caller. It is safe for concurrent use.
type streams struct {
	most int // per caller; 0: unlimited

	mu   sync.Mutex
	open map[string]int
}

// take counts one more stream until done is called. ok is false if the caller has reached
// the limit.
func (s *streams) take(caller string) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && s.open[caller] >= s.most {
		return nil, false
	}
	if s.open == nil {
		s.open = map[string]int{}
	}
	s.open[caller]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[caller]--; s.open[caller] == 0 {
			delete(s.open, caller)
		}
	}, true
}

// countStream counts a stream for its caller until the call ends. It fails if the caller has as
// many open as allowed.
func (s *Server) countStream(c *call) error {
	if s.auth.Mode() == auth.ModeDevelopment {
		return nil
	}
	done, ok := s.limits.streams.take(s.counted(c.r, c.caller))
	if !ok {
		s.limits.Refused("streams")
		return &bloom.Error{Kind: bloom.KindRateLimited, Code: bloom.CodeRateLimited,
			Message: fmt.Sprintf("This key has %d streams open, which is the most; close one first", s.limits.streams.most)}
	}
	c.finally(done)
	return nil
}

// network returns the caller's network, which is the unit of limits by address.
func (s *Server) network(r *http.Request) string { return guard.Network(s.proxies.Client(r)) }

// isProbe reports whether the path is one that load balancers probe, without a key. Refusing
// a probe would take a healthy server out of service.
func isProbe(path string) bool { return path == "/readyz" || path == "/health" || path == "/healthz" }

// probe caches for probeFor whether the store answers. It is safe for concurrent use.
type probe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

const probeFor = 100 * time.Millisecond

func (p *probe) check(clock timing.Clock, ready func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || clock.Now().Sub(p.at) >= probeFor {
		p.err = ready()
		p.at = clock.Now()
	}
	return p.err
}
