package membridge

// access is who may use a route.
type access int

const (
	accessOpen  access = iota + 1
	accessAgent        // the agent key or the admin key
	accessAdmin
)

// policies is the only place that defines who may use which route: a route without a policy cannot
// be registered, and OpenAPI is generated from it.
var policies = map[string]access{
	// Without a key: health checks, and pages without secrets.
	"GET /health":         accessOpen,
	"GET /docs":           accessOpen,
	"GET /openapi.json":   accessOpen,
	"GET /ui":             accessOpen,
	"GET /static/ui.html": accessOpen,

	// Agents, each only for itself.
	"POST /agents":                  accessAgent,
	"POST /agents/{name}/heartbeat": accessAgent,
	"POST /agent/heartbeat":         accessAgent,

	// Admins.
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

// String returns the policy's name.
func (a access) String() string {
	return map[access]string{accessOpen: "open", accessAgent: "agent", accessAdmin: "admin"}[a]
}

// security returns the policy as OpenAPI security requirements.
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
