// Package httpapi is the runtime's HTTP API: routes, bodies, errors and streams over the
// use cases of internal/dispatch. It contains no lifecycle rules and no SQL.
package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/search"
	"github.com/bloom-runtime/bloom/internal/share"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

const (
	probesLogged    = 600 // logged probes of load balancers per minute
	anonymousAudits = 20  // audited connection tests without a key per minute
)

// Server answers the runtime's HTTP requests. It is safe for concurrent use.
type Server struct {
	svc          *dispatch.Service
	store        contract.Store
	auth         *auth.Authenticator
	origin       *auth.Origin
	proxy        MembridgeProxy
	problems     *problems.Finder
	lists        *search.Store
	proxies      guard.Proxies
	web          WebApp
	log          *slog.Logger
	requestLevel slog.Level
	clock        timing.Clock
	started      time.Time
	version      string
	loopbackOnly bool
	limits       *limits
	// anonymousAudits limits the audit entries of callers without a key.
	anonymousAudits              *guard.Limiter
	stored, writable             probe
	probed                       *guard.Limiter // limits log lines for probes
	small, large, answers        *share.Shares  // memory of bodies and of answers
	refusalsOfOne, refusalsOfAll *guard.Limiter
	mux                          *guard.Mux[auth.Policy]
	api                          huma.API
	spec                         json.RawMessage // OpenAPI
	observe                      func(route string, status int, took time.Duration)

	known         func(*http.Request)
	files         *share.Shares
	disk          func() *Disk
	privateCA     func() bool
	streamTimeout time.Duration
}

// New returns the handler. It panics if a route has no policy or is registered twice:
// both are bugs in this package.
func New(c Config) *Server {
	if c.Clock == nil {
		c.Clock = timing.System{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Origin == nil {
		c.Origin, _ = auth.NewOrigin() // without trusted origins it cannot fail
	}
	if c.Known == nil {
		c.Known = func(*http.Request) {}
	}
	if c.StartedAt.IsZero() {
		c.StartedAt = c.Clock.Now()
	}
	s := &Server{
		svc: c.Service, store: c.Store, auth: c.Auth, origin: c.Origin, proxy: c.Proxy, proxies: c.Proxies, web: c.Web, log: c.Logger, requestLevel: c.RequestLevel,
		clock: c.Clock, started: c.StartedAt, version: c.Version, loopbackOnly: c.LoopbackOnly, observe: c.Observe, limits: newLimits(c), anonymousAudits: guard.NewLimiter(c.Clock, anonymousAudits), probed: guard.NewLimiter(c.Clock, probesLogged),
		streamTimeout: cmp.Or(c.StreamTimeout, DefaultStreamTimeout), disk: c.Disk, privateCA: c.PrivateCA, known: c.Known, files: share.New(transfersOfAll, transfersOfNetwork),
	}
	if s.svc != nil { // without one there is only the description
		s.problems = problems.New(s.store, s.svc.Server, s.svc.Content, s.clock, s.log)
		s.lists = search.New(s.store, s.svc.Content, c.PageBytes)
	}
	memory := max(cmp.Or(c.BodyBudget, DefaultBodyBudget), leastAnswers)
	s.small, s.large, s.answers = shareOf(memory/2), shareOf(memory), shareOf(memory)
	s.refusalsOfOne, s.refusalsOfAll = guard.NewLimiter(c.Clock, refusalsOfOne), guard.NewLimiter(c.Clock, refusalsOfAll)
	s.mux = guard.NewMux(policies, s.enter)
	s.api = humago.New(s.mux, apiConfig(c.Version))
	s.routes()
	s.describe()
	if c.Installer != nil {
		for _, pattern := range c.Installer.Routes() {
			s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.download(c.Installer, w, r) })
		}
	}
	if c.Metrics != nil {
		s.mux.HandleFunc("GET /metrics", c.Metrics.ServeHTTP)
	}
	return s
}

func apiConfig(version string) huma.Config {
	config := huma.DefaultConfig("BLOOM Runtime", version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", "" // served by describe
	config.CreateHooks = nil                                             // no $schema in bodies
	config.AllowAdditionalPropertiesByDefault = true                     // of answers; bodies are checked by decode
	config.Transformers = []huma.Transformer{humaFailure}
	config.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	config.Info.Description = "Durable runtime for LLM agent tasks. Times are Unix epoch milliseconds."
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key":     {Type: "apiKey", In: "header", Name: auth.HeaderKey},
		"bearer":  {Type: "http", Scheme: "bearer"},
		"session": {Type: "apiKey", In: "cookie", Name: auth.SessionCookie},
	}
	return config
}

// Policies returns the policy of every route, by "METHOD /path".
func (s *Server) Policies() map[string]auth.Policy { return s.mux.Policies() }

// OpenAPI returns the API's description in OpenAPI 3.1, as GET /openapi.json serves
// it. It needs no running server.
func OpenAPI(version string) json.RawMessage { return New(Config{Version: version}).spec }

// ServeHTTP answers one request and logs one line about it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := s.clock.Now()
	id := requestID(r)
	routed := r // the mux sets its pattern
	rec := recorders.Get().(*recorder)
	*rec = recorder{ResponseWriter: w}
	h := w.Header()
	h["X-Request-Id"] = []string{id}
	h["X-Content-Type-Options"] = nosniff
	h["Cache-Control"] = noStore
	defer func() {
		p := recover()
		cut := p != nil && s.panicked(rec, r, id, p)
		took := s.clock.Now().Sub(began)
		s.logRequest(r, rec.status, id, took)
		if s.observe != nil {
			s.observe(routed.Pattern, cmp.Or(rec.status, http.StatusOK), took)
		}
		*rec = recorder{}
		recorders.Put(rec)
		if cut {
			panic(http.ErrAbortHandler) // makes net/http cut the connection of an incomplete response
		}
	}()
	if err := s.origin.Check(r); err != nil {
		rec.matched = true
		s.failure(r.Context(), id, err).write(rec)
		return
	}
	routed = r.WithContext(context.WithValue(r.Context(), callKey{}, &call{id: id}))
	s.mux.ServeHTTP(rec, routed)
	if rec.held != 0 {
		rec.matched = true
		if rec.held == http.StatusNotFound && s.web != nil && s.web.Serves(r) {
			rec.held = 0
			maps.DeleteFunc(h, func(name string, _ []string) bool {
				return name != "X-Request-Id" && name != "Strict-Transport-Security"
			})
			s.webFile(rec, r, id)
			return
		}
		s.unmatched(rec, r, id)
	}
}

// enter wraps every route's handler: it authenticates the caller and checks the
// route's policy and the limits.
func (s *Server) enter(policy auth.Policy, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		rec := w.(*recorder)
		rec.matched, rec.call = true, c
		cleanID(r)
		caller, err := s.auth.Authenticate(r)
		switch {
		case err != nil && !policy.Open():
		case err != nil: // open routes also serve callers with an invalid key
			if kind := bloom.KindOf(err); kind == bloom.KindUnavailable || kind == bloom.KindInternal {
				c.unknown = err
			}
			caller, err = auth.Principal{}, nil
		default:
			err = policy.Check(caller)
		}
		if caller.Known() {
			s.known(r)
		}
		if refused := s.limited(w, r, caller, policy); refused != nil {
			err = refused
		}
		if err != nil {
			s.auditRefusal(r, caller, err)
			s.failure(r.Context(), c.id, err).write(w)
			return
		}
		ctx, cut := context.WithCancelCause(audit.WithCaller(r.Context(), audit.Caller{KeyID: caller.ID, Role: caller.Role, Worker: caller.Worker, Address: s.proxies.Client(r)}))
		defer cut(nil)
		r = r.WithContext(ctx)
		c.caller, c.r, c.w = caller, r, w
		c.accept = r.Header.Get("Accept")
		r.Header.Del("Accept") // responses have one format, and huma 2.39 panics on some invalid values
		c.finally(func() { c.answered(0) })
		defer func() { c.ends() }()
		defer s.auth.Watch(r, caller, cut)()
		h(w, r)
		if c.rest != nil {
			c.rest()
		}
	}
}
