package guard

import (
	"fmt"
	"maps"
	"net/http"
)

// Mux is a ServeMux that accepts only routes with a policy in its table. Register all routes before
// the first request.
type Mux[P any] struct {
	*http.ServeMux
	table      map[string]P
	enter      func(P, http.HandlerFunc) http.HandlerFunc
	registered map[string]P
}

// NewMux returns a mux with a table of policies by "METHOD /path". It serves each route with the
// handler that enter returns for the route's policy and handler.
func NewMux[P any](table map[string]P, enter func(P, http.HandlerFunc) http.HandlerFunc) *Mux[P] {
	return &Mux[P]{ServeMux: http.NewServeMux(), table: table, enter: enter, registered: map[string]P{}}
}

// HandleFunc registers a route. It panics when the table has no policy for it.
func (m *Mux[P]) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	policy := m.Policy(pattern)
	m.ServeMux.HandleFunc(pattern, m.enter(policy, h))
	m.registered[pattern] = policy
}

// Policy returns a route's policy. It panics when the table has none.
func (m *Mux[P]) Policy(pattern string) P {
	policy, decided := m.table[pattern]
	if !decided {
		panic(fmt.Sprintf("route %q has no policy", pattern))
	}
	return policy
}

// Policies returns the policies of the registered routes.
func (m *Mux[P]) Policies() map[string]P { return maps.Clone(m.registered) }
