package guard

import (
	"fmt"
	"maps"
	"net/http"
)

// Mux is a mux on which no route exists that its table has no policy for. Routes are
// registered before the first request.
type Mux[P any] struct {
	*http.ServeMux
	table      map[string]P
	enter      func(P, http.HandlerFunc) http.HandlerFunc
	registered map[string]P
}

// NewMux makes a mux with a table of policies by "METHOD /path". Each request of a route
// goes to what enter makes of the route's policy and handler.
func NewMux[P any](table map[string]P, enter func(P, http.HandlerFunc) http.HandlerFunc) *Mux[P] {
	return &Mux[P]{ServeMux: http.NewServeMux(), table: table, enter: enter, registered: map[string]P{}}
}

// HandleFunc registers a route. It panics when the table does not name the route.
func (m *Mux[P]) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	policy := m.Policy(pattern)
	m.ServeMux.HandleFunc(pattern, m.enter(policy, h))
	m.registered[pattern] = policy
}

// Policy is a route's. It panics when the table does not name the route.
func (m *Mux[P]) Policy(pattern string) P {
	policy, decided := m.table[pattern]
	if !decided {
		panic(fmt.Sprintf("route %q has no policy", pattern))
	}
	return policy
}

// Policies are those of the routes that were registered.
func (m *Mux[P]) Policies() map[string]P { return maps.Clone(m.registered) }
