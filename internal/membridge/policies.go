package membridge

// access is who may use a route.
type access int

const (
	accessOpen  access = iota + 1
	accessAgent        // the agent key or the admin key
	accessAdmin
)

// policies says for every route whom it admits. It is the only place that does: a route
// that is not here cannot be registered, and OpenAPI says what is here.
var policies = map[string]access{
	// Callers without a key: what load balancers ask, and pages that hold no secret.
	"GET /health":         accessOpen,
	"GET /docs":           accessOpen,
	"GET /openapi.json":   accessOpen,
	"GET /ui":             accessOpen,
	"GET /static/ui.html": accessOpen,

	// Agents, each for itself.
	"POST /agents":                  accessAgent,
	"POST /agents/{name}/heartbeat": accessAgent,
	"POST /agent/heartbeat":         accessAgent,

	// Admins alone.
	"GET /agents":                            accessAdmin,
	"DELETE /agents/{name}":                  accessAdmin,
	"POST /agents/{name}/drain":              accessAdmin,
	"GET /projects":                          accessAdmin,
	"POST /projects":                         accessAdmin,
	"DELETE /projects/{name}":                accessAdmin,
	"GET /projects/{cid}/nodes":              accessAdmin,
	"GET /projects/{cid}/leadership":         accessAdmin,
	"GET /projects/{cid}/leadership/history": accessAdmin,
	"POST /projects/{cid}/leadership/select": accessAdmin,
	"POST /sync/push":                        accessAdmin,
	"POST /sync/pull":                        accessAdmin,
	"GET /jobs":                              accessAdmin,
	"GET /jobs/{id}":                         accessAdmin,
	"GET /metrics":                           accessAdmin,
}

// String is the policy's name.
func (a access) String() string {
	return map[access]string{accessOpen: "open", accessAgent: "agent", accessAdmin: "admin"}[a]
}

// security is the policy in OpenAPI's words.
func (a access) security(tokens bool) []map[string][]string {
	admin, agent, bound := map[string][]string{"admin": {}}, map[string][]string{"agent": {}}, map[string][]string{"agent": {}, "token": {}}
	switch {
	case a == accessAdmin:
		return []map[string][]string{admin}
	case a == accessAgent && tokens:
		return []map[string][]string{admin, bound}
	case a == accessAgent:
		return []map[string][]string{admin, bound, agent}
	}
	return []map[string][]string{{}} // no key
}
