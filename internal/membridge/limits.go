package membridge

import (
	"net/http"

	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Limits are rate limits in requests per minute; 0 means unlimited. Each replica counts separately.
// Development mode, where every caller is on this machine, has none.
type Limits struct {
	Address int // of callers without a valid key, by address (IPv6: by /64 network)
	Admin   int // with the admin key
	Agent   int // with the agent key; not counted for Admin
}

type limits struct {
	*guard.Limits
	address, admin, agent *guard.Limit
}

func newLimits(c Config, m *metrics) limits {
	clock := c.Clock
	if clock == nil {
		clock = timing.System{}
	}
	all := guard.NewLimits(clock, c.Log, func(limit string) { m.refused.WithLabelValues(limit).Inc() })
	limit := func(name, of string, perMinute int) *guard.Limit {
		m.refused.WithLabelValues(name)
		return all.New(name, of, perMinute)
	}
	return limits{
		Limits:  all,
		address: limit("address", "callers without a valid key at this address", c.Limits.Address),
		admin:   limit("admin", "the admin key", c.Limits.Admin),
		agent:   limit("agent", "the agent key", c.Limits.Agent),
	}
}

// limited counts a request against its caller's limit. Health checks are exempt: refusing a load
// balancer would take a healthy control plane out of service.
func (s *Server) limited(w http.ResponseWriter, r *http.Request, who callerKind) *Problem {
	if who == callerDeveloper || r.URL.Path == "/health" {
		return nil
	}
	limit, caller := s.limits.address, guard.Network(s.cfg.Proxies.Client(r))
	switch who { //nolint:exhaustive // the others are above
	case callerAdmin:
		limit, caller = s.limits.admin, ""
	case callerAgent:
		limit, caller = s.limits.agent, ""
	}
	refused := s.limits.Take(w.Header(), limit, caller)
	if refused == nil {
		return nil
	}
	w.Header().Set("Retry-After", guard.Seconds(refused.RetryAfter))
	return problem(http.StatusTooManyRequests, refused.Message)
}
